// Package aws is the family of the FPGA cards of AWS instances, F2 and F1.
//
// A card has two PCI functions. The management function stays while an image is loaded. The application function
// belongs to the image, which determines its PCI ids. To load an image, the application function is removed and then
// found again by a rescan. A device is the application function. It is listed as long as the management function
// exists: while the application function is missing, the device is unhealthy (loading).
//
// The application function has no driver and no device node. Programs map its BARs through the files resource0,
// resource4 and resource4_wc in sysfs, so a container gets these files as mounts. A function that is bound to xocl or
// to a driver of VFIO belongs to another family.
//
// The package never accesses the BARs of either function: even the name of the loaded image can be read only by writing
// to the mailbox of the management function, which another program may be using.
//
// The package owns no state. Listing cards reads directories, links and ids that the kernel keeps. Reading a card may
// block as long as a function does not answer.
package aws
