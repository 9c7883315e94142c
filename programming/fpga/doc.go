// Package fpga finds dfl cards (which use the in-tree driver) and opae cards (which use Intel's out-of-tree intel-fpga)
// in sysfs, programs their ports, and releases and assigns ports.
//
// # State
//
// The package keeps no state. What [Cards] and [Find] return may be out of date at any time, so [Programmer] rereads a
// card once it has the card's lock.
//
// The driver's names and device numbers don't identify a card: as soon as a card has left, the kernel reuses them for
// the next one. A [Card] is identified by its PCI address, and a node is used only if its number matches the card's in
// sysfs.
//
// # What is opened
//
// Only [Programmer]'s methods open devices, and they keep them open for as short a time as possible. On Linux 6.1 and
// 6.12, closing the node of a card that has left uses freed memory. For a port this causes an oops (afu_release resets
// the port, dfl-afu-main.c). For an FME with interrupts, the kernel reads their freed table (fme_release,
// dfl-fme-main.c; irq_ctx, dfl.c).
//
// So Program opens the port with O_EXCL, to find out whether another process is using it, and closes it before the
// request. The close resets the AFU, which is about to be replaced anyway. Like Intel's fpgaconf, Program also opens
// the FME with O_EXCL, because a process that has the FME open could reprogram the card at any time. One example is a
// process that got the FME from a pod in regiondevel mode. Program closes the FME as soon as the request has returned.
// If the card is being removed, the removal waits for that.
//
// Both drivers reject an open with O_EXCL while the node is open, and any open while the node is open with O_EXCL
// (dfl_feature_dev_use_begin, dfl.h; feature_dev_use_excl_begin in opae). Before Linux 5.7, dfl ignores the flag and
// doesn't allow an FME or a port to be open more than once.
//
// # What may block
//
// Reading an attribute blocks until the card answers. Find reads only the attributes of the card that it returns.
// [MaxTemperature.Check] waits at most 2 s for the card's sensors. Programmer's methods return when their context is
// done. A request to the driver can't be interrupted, so it then continues in a goroutine that nothing waits for and
// that keeps the lock. The process must therefore exit soon.
//
// # Sources
//
// Linux include/uapi/linux/fpga-dfl.h, drivers/fpga/dfl-fme-pr.c, dfl-fme-main.c, dfl-fme-mgr.c, dfl-afu-main.c and
// dfl.c; for opae, intel-fpga.h in opae-sdk.
package fpga
