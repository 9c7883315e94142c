// Package fpga finds FPGA cards in sysfs, programs their ports, and releases and assigns ports. It supports dfl cards,
// which use the in-tree driver, and opae cards, which use Intel's out-of-tree intel-fpga driver.
//
// # State
//
// The package keeps no state. The results of [Cards] and [Find] can become outdated at any time, so [Programmer]
// rereads a card once it holds the card's lock.
//
// The driver's names and device numbers don't identify a card, because the kernel reuses them as soon as a card has
// been removed. A [Card] is identified by its PCI address, and a device node is used only if its number is the one that
// sysfs lists for the card.
//
// # What is opened
//
// Only the methods of [Programmer] open devices, and they keep them open as briefly as possible: on Linux 6.1 and 6.12,
// closing the device node of a card that has been removed uses freed memory. For a port, this causes an oops
// (afu_release resets the port, dfl-afu-main.c). For an FME with interrupts, the kernel reads the freed interrupt table
// (fme_release, dfl-fme-main.c; irq_ctx, dfl.c).
//
// So Program opens the port with O_EXCL to find out whether another process is using it, and closes it again before
// sending the request. Closing the port resets the AFU, which is about to be replaced anyway. Like Intel's fpgaconf,
// Program also opens the FME with O_EXCL, because any other process that has the FME open (from a pod in regiondevel
// mode, for example) could reprogram the card at any time. Program closes the FME as soon as the request returns. If
// the card is being removed, the removal waits until the FME is closed.
//
// While a device node is open, both drivers reject another open with O_EXCL. While it is open with O_EXCL, they reject
// any other open (dfl_feature_dev_use_begin, dfl.h; feature_dev_use_excl_begin in opae). Before Linux 5.7, dfl ignored
// the flag, and never allowed an FME or port to be opened twice.
//
// # What may block
//
// Reading an attribute blocks until the card responds. Find reads only the attributes of the card that it returns.
// [MaxTemperature.Check] waits up to 2 s for the card's sensors. Programmer's methods return when their context is
// done, but a request to the driver can't be interrupted: it continues in an abandoned goroutine, which keeps the lock.
// So the process must exit soon afterwards.
//
// # Sources
//
// For dfl: include/uapi/linux/fpga-dfl.h and drivers/fpga/dfl-fme-pr.c, dfl-fme-main.c, dfl-fme-mgr.c, dfl-afu-main.c
// and dfl.c in Linux. For opae: intel-fpga.h in opae-sdk.
package fpga
