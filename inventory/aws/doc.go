// Package aws is the family for FPGA cards on AWS F1 and F2 instances.
//
// A card has two PCI functions. The management function stays in place while an image is loaded. The application
// function belongs to the image, which determines its PCI ids. Loading an image removes the application function, and a
// rescan then finds it again. The device is the application function, but it is listed as long as the management
// function exists. While the application function is missing, the device is unhealthy (loading).
//
// The application function has no driver and no device node. Programs map its BARs through the resource0, resource4 and
// resource4_wc files in sysfs, so a container gets these files as mounts. A function bound to xocl or to a VFIO driver
// belongs to another family.
//
// The package never accesses the BARs of either function: even reading the loaded image's name would mean writing to
// the management function's mailbox, which another program may be using.
//
// The package owns no state. Listing cards reads only directories, links and ids that the kernel has cached. Reading a
// card may block for as long as a function doesn't respond.
package aws
