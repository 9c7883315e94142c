// Command host boots a qemu guest and emulates the FPGA cards that are plugged into it:
//
//	host -kernel VMLINUX -modules DIR -init BINARY -daemon BINARY \
//		-tool BINARY -runc BINARY -stories DIR -out DIR
//
// Each function of a card is a PCI function of qemu (x-pci-proxy-dev). qemu forwards
// every access to it over a socket to this process (qemu's hw/remote/mpqemu-link.h). The
// guest's unmodified dfl-pci driver finds a device feature list with working registers:
// the port's reset is acknowledged, errors are cleared by writing ones, partial
// reconfiguration succeeds or fails. Cards with PCI Express capabilities are qemu's own.
//
// The guest sends its requests and its progress over its second serial port, one line
// each (requests.go). Its console is written to OUT/console.log, its output files to
// OUT/guest.tar.gz. The exit status is the guest's, or 3 if the guest returned none.
//
// The mutex of a function guards its registers. The process ends when qemu ends, and
// qemu is killed when the process ends.
package main
