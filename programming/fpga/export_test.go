package fpga

import (
	"unsafe"
)

// SetIoctl makes the programmer call do instead of the driver.
func (p *Programmer) SetIoctl(do func(fd int, request uintptr, arg unsafe.Pointer) error) { p.do = do }

// SetOpen makes the programmer call open to open device nodes.
func (p *Programmer) SetOpen(open func(path string, flags int, perm uint32) (fd int, err error)) {
	p.open = open
}

// ProgramArg is the argument of a programming request as the driver reads it.
type ProgramArg struct {
	Size, Flags, Port uint32
	Data              []byte
}

func ProgramArgAt(arg unsafe.Pointer) ProgramArg {
	a := (*programArg)(arg)
	data := *(**byte)(unsafe.Pointer(&a.bufferAddress))
	return ProgramArg{a.size, a.flags, a.port, unsafe.Slice(data, a.bufferSize)}
}

// SetStatus sets the status that the driver returns.
func SetStatus(arg unsafe.Pointer, status uint64) { (*programArg)(arg).status = status }

// PortArgAt returns the fields of a release or assign request's argument.
func PortArgAt(arg unsafe.Pointer) (size, flags, port uint32) {
	a := (*portArg)(arg)
	return a.size, a.flags, a.port
}

// Offsets returns the sizes of the structures and their fields' offsets.
func Offsets() map[string]uintptr {
	var program programArg
	var port portArg
	return map[string]uintptr{
		"program":                unsafe.Sizeof(program),
		"program.size":           unsafe.Offsetof(program.size),
		"program.flags":          unsafe.Offsetof(program.flags),
		"program.port":           unsafe.Offsetof(program.port),
		"program.buffer_size":    unsafe.Offsetof(program.bufferSize),
		"program.buffer_address": unsafe.Offsetof(program.bufferAddress),
		"program.status":         unsafe.Offsetof(program.status),
		"port":                   unsafe.Sizeof(port),
		"port.size":              unsafe.Offsetof(port.size),
		"port.flags":             unsafe.Offsetof(port.flags),
		"port.port":              unsafe.Offsetof(port.port),
	}
}

// ParseAddress exports parseAddress for its fuzz target.
var ParseAddress = parseAddress
