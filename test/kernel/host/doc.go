// Command host boots a qemu guest and emulates the FPGA cards that are plugged into it:
//
//	host -kernel VMLINUX -modules DIR -init BINARY -daemon BINARY \
//		-tool BINARY -runc BINARY -stories DIR -out DIR
//
// Each function of a card is a PCI function of qemu (x-pci-proxy-dev). qemu forwards every access to it over a socket
// to this process (qemu's hw/remote/mpqemu-link.h). The guest's unmodified dfl-pci driver finds a device feature list
// with working registers: the port's reset is acknowledged, errors are cleared by writing ones, and partial
// reconfiguration succeeds or fails. Cards with PCI Express capabilities are emulated by qemu itself.
//
// The guest sends its requests and its progress over its second serial port, one per line (requests.go). Its console is
// written to OUT/console.log, and its output files to OUT/guest.tar.gz. The exit status is the guest's, or 3 if the
// guest did not return one.
//
// The mutex of a function guards its registers. The process ends when qemu ends, and kills qemu when it ends itself.
package main
