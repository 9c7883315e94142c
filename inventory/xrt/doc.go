// Package xrt is the family of AMD's cards with XRT: the user functions of cards, which are bound to the driver xocl.
//
// A device is a user function. Its id is the address of that function. It is offered as amd.com/VBNV-TIMESTAMP, the
// name of its shell, unless a rule names it. Its health also comes from the management function in the same slot,
// which is bound to xclmgmt, if this host has it.
//
// While a card is reset or gets another shell, xocl removes its DRM device and most attributes, and makes them again
// later. It stays bound, so the kernel sends events of the subsystem drm only. The number of the render node may change.
//
// The package opens no device. It reads only attributes that xocl has in memory. It never reads
//
//   - error of the management function: reading clears it.
//   - the sensors of xmc.* and icap.*, serial_num of xmc.* and mig_calibration: they send a message to the management
//     function and wait for the answer.
//   - xclbinuuid: xocl holds its lock while a program is loaded into the card, which may take seconds.
//
// The package owns no state. Listing cards reads only directories and links. Reading a card may block as long as its
// functions do not answer.
package xrt
