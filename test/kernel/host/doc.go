// Command host boots a qemu guest and is the FPGA cards that are plugged into it:
//
//	host -kernel VMLINUX -modules DIR -init BINARY -daemon BINARY \
//		-tool BINARY -runc BINARY -stories DIR -out DIR
//
// Each card is a PCI function that qemu's x-pci-proxy-dev forwards, access by
// access, over a socket to this process (qemu's hw/remote/mpqemu-link.h), so that
// the guest's unmodified dfl-pci driver sees a device feature list whose registers
// answer: the port's reset is acknowledged, errors are cleared by writing ones,
// partial reconfiguration works or fails.
//
// The guest asks for cards over its second serial port, one request a line, and
// tells over it what it is doing (requests.go). Its console goes to OUT/console.log,
// what it leaves behind to OUT/guest.tar.gz. The exit status is the guest's; 3 when
// it did not come that far.
//
// A card's registers belong to its mutex. The process ends when qemu does, and takes
// qemu along.
package main
