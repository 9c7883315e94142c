package fpga

import (
	"fmt"
	"math/bits"
	"strings"
	"syscall"
	"unsafe"
)

// requests describes the ioctl requests that a driver accepts for an FME. dfl and opae use different request numbers.
// Sources: include/uapi/linux/fpga-dfl.h (DFL_FPGA_FME_PORT_*), and FPGA_FME_PORT_* in intel-fpga.h.
type requests struct {
	program, release, assign uintptr

	programSize uint32 // programArg's size without the fields that the driver doesn't have
	portNumber  bool   // release and assign take a pointer to the port number instead of a portArg
}

var (
	dflRequests  = requests{program: 0xb680, release: 0x4004b681, assign: 0x4004b682, programSize: 24, portNumber: true}
	opaeRequests = requests{program: 0xb580, release: 0xb581, assign: 0xb582, programSize: 32}
)

// programArg is opae's struct fpga_fme_port_pr. Without the status field, it is dfl's struct dfl_fpga_fme_port_pr.
type programArg struct {
	size          uint32 // argsz
	flags         uint32
	port          uint32
	bufferSize    uint32
	bufferAddress uint64
	status        uint64 // opae only: set by the driver if it returns EIO
}

// portArg stands for opae's structs fpga_fme_port_release and fpga_fme_port_assign, which have the same fields.
type portArg struct {
	size  uint32 // argsz
	flags uint32
	port  uint32
}

// ioctl sends a request to the driver. Tests replace it.
type ioctl func(fd int, request uintptr, arg unsafe.Pointer) error

func ioctlDriver(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// programPort asks the driver to program a port with data, which must not be in memory that Go manages. The driver
// starts by copying data (fme_pr, dfl-fme-pr.c). fd is the FME's open device node. text describes the card's errors, if
// the driver returns any.
func (r requests) programPort(do ioctl, fd, port int, data []byte) (text string, err error) {
	arg := &programArg{
		size:          r.programSize,
		port:          uint32(port),
		bufferSize:    uint32(len(data)), // can't overflow, because of programming.MaxSize
		bufferAddress: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data)))),
	}
	err = do(fd, r.program, unsafe.Pointer(arg))
	return statusText(arg.status), err
}

// movePort asks the driver to release or assign a port.
func (r requests) movePort(do ioctl, fd int, request uintptr, port int) error {
	arg := &portArg{port: uint32(port)}
	arg.size = uint32(unsafe.Sizeof(*arg))
	if r.portNumber {
		return do(fd, request, unsafe.Pointer(&arg.port))
	}
	return do(fd, request, unsafe.Pointer(arg))
}

// statusText describes the bits of opae's status (DEFINE_FPGA_PR_ERR_MSG).
func statusText(status uint64) string {
	names := []string{"operation error", "CRC error", "incompatible bitstream", "IP protocol error",
		"FIFO overflow", "time-out", "secure load error"}
	var found []string
	for ; status != 0; status &= status - 1 {
		if bit := bits.TrailingZeros64(status); bit < len(names) {
			found = append(found, names[bit])
		} else {
			found = append(found, fmt.Sprintf("error bit %d", bit))
		}
	}
	return strings.Join(found, ", ")
}
