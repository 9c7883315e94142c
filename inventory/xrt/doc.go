// Package xrt is the family for AMD cards that use XRT. It reads their user functions, which are bound to the xocl
// driver.
//
// A device is a user function, and its id is that function's address. It is offered as amd.com/VBNV-TIMESTAMP, which is
// its shell's name, unless a rule gives it another name. If the management function, which is in the same slot and
// bound to xclmgmt, is on this host, it also counts toward the device's health.
//
// While a card is being reset or gets a new shell, xocl removes its DRM device and most of its attributes, and
// recreates them later. xocl stays bound, so the kernel only sends drm events. The render node's number may change.
//
// The package doesn't open any devices. It reads only attributes that xocl keeps in memory. It never reads
//
//   - the management function's error attribute, because reading clears it.
//   - the xmc.* and icap.* sensors, serial_num in xmc.*, and mig_calibration, because reading them sends a message to
//     the management function and waits for a reply.
//   - xclbinuuid, because xocl holds its lock while a program is being loaded into the card, which may take several
//     seconds.
//
// The package owns no state. Listing cards reads only directories and links. Reading a card may block for as long as
// its functions don't respond.
package xrt
