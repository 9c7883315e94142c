package main

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// forge sends a forged uevent that says that the card at this address was removed. If through is true, it writes the
// uevent to the kernel, which forwards it. Otherwise, it sends the uevent to all listeners in the multicast group.
func forge(through bool, address string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	devpath := "/devices/pci0000:00/" + address
	message := []byte(fmt.Sprintf("remove@%s\x00ACTION=remove\x00DEVPATH=%s\x00SUBSYSTEM=pci\x00PCI_SLOT_NAME=%s\x00SEQNUM=1\x00", devpath, devpath, address))
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}
	if through {
		to.Groups = 0
		header := make([]byte, unix.SizeofNlMsghdr)
		binary.NativeEndian.PutUint32(header, uint32(len(header)+len(message)))
		binary.NativeEndian.PutUint16(header[4:], unix.NLMSG_MIN_TYPE)
		binary.NativeEndian.PutUint16(header[6:], unix.NLM_F_REQUEST)
		message = append(header, message...)
	}
	return unix.Sendto(fd, message, 0, to)
}
