// Package fpga finds the cards of the drivers dfl (in the kernel) and opae (Intel's
// out-of-tree intel-fpga) in sysfs, programs their ports, and releases and assigns ports.
//
// # State
//
// The package keeps no state. The values of [Cards] and [Find] may be outdated at any time:
// [Programmer] reads the card again once it has the lock of the card.
//
// Names and device numbers of the driver do not identify a card: the kernel reuses them for the
// next card as soon as one has left. A [Card] is identified by its PCI address, and a node is used
// only if its number is that of the card in sysfs.
//
// # What is opened
//
// Only the methods of [Programmer] open a device, and each for as short a time as possible: on Linux 6.1 and 6.12,
// closing the node of a card that has left uses freed memory. For a port this causes an oops (afu_release resets the
// port, dfl-afu-main.c). For an FME with interrupts the kernel reads their freed table (fme_release, dfl-fme-main.c;
// irq_ctx, dfl.c).
//
// So Program opens the port with O_EXCL, to find out whether another process uses it, and closes it before the request.
// The close resets the AFU, which is about to be replaced. Program also opens the FME with O_EXCL, as Intel's fpgaconf
// does: a process that has the FME open could program the card again at any time. An example is a process to which a
// pod in mode regiondevel has passed the FME. Program closes the FME as soon as the request has returned. The removal
// of the card waits for that.
//
// Both drivers refuse an open with O_EXCL while the node is open, and any open while the node is open with O_EXCL
// (dfl_feature_dev_use_begin, dfl.h; feature_dev_use_excl_begin of opae). Before Linux 5.7, dfl ignores the flag and
// lets an FME or a port be open only once.
//
// # What may block
//
// Reading an attribute blocks until the card answers. Find reads only the attributes of the card that it returns.
// [MaxTemperature.Check] waits at most 2 s for the card's sensors. The methods of Programmer end with their context. A
// request to the driver cannot be interrupted: when the context ends, the request continues in a goroutine that nobody
// waits for, and keeps the lock, so the process must end soon.
//
// # Sources
//
// Linux include/uapi/linux/fpga-dfl.h, drivers/fpga/dfl-fme-pr.c, dfl-fme-main.c, dfl-fme-mgr.c,
// dfl-afu-main.c and dfl.c; for opae intel-fpga.h of opae-sdk.
package fpga
