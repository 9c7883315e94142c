package main

// xrtModel is the shell of a card whose user function is driven by xocl, of Xilinx' XRT.
type xrtModel struct {
	vbnv, fpga string
	timestamp  uint64
}

const (
	xrtBAR = 64 << 20 // the subdevices of a shell have addresses up to 32 MiB
	xrtROM = 0xb0000
)

// initXRT writes the registers that xocl reads: the feature ROM (struct FeatureRomHeader of
// XRT's xclfeatures.h) and the ids of the DMA engine (libxdma.h). All others are 0.
func (f *function) initXRT(m *xrtModel) {
	f.bar = make([]byte, xrtBAR)
	f.config[0x3d] = 1 // has an interrupt
	f.set(0x2000, 0x1fc20006)
	f.set(0x3000, 0x1fc30006)
	rom := f.bar[xrtROM:]
	copy(rom, "xlnx\x0a")
	f.set(xrtROM+16, m.timestamp)
	copy(rom[24:88], m.fpga)
	copy(rom[88:152], m.vbnv)
	f.set(xrtROM+152, 16<<8|4) // four banks of memory, of 16 GB
	f.set(xrtROM+168, 5)       // the features that all shells have
}
