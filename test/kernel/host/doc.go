// Command host boots a qemu guest and emulates the FPGA cards that are plugged into it:
//
//	host -kernel VMLINUX -modules DIR -init BINARY -daemon BINARY \
//		-tool BINARY -runc BINARY -stories DIR -out DIR
//
// Each of a card's functions is one of qemu's PCI functions (x-pci-proxy-dev). qemu forwards every access over a socket
// to this process (hw/remote/mpqemu-link.h in qemu). The guest's unmodified dfl-pci driver finds a device feature list
// with working registers: port resets are acknowledged, errors are cleared by writing ones, and partial reconfiguration
// succeeds or fails. Cards that need PCI Express capabilities are emulated by qemu itself.
//
// The guest sends requests and progress over its second serial port, one per line (requests.go). Its console goes to
// OUT/console.log, and its output files go to OUT/guest.tar.gz. The exit status is the guest's, or 3 if the guest
// didn't return one.
//
// A function's mutex guards its registers. This process ends when qemu does. If it ends first, it kills qemu.
package main
