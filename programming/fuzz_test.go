package programming_test

import (
	"bytes"
	"debug/elf"
	"io"
	"testing"

	"b-com.com/accelerator-device-plugin/programming"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
)

func FuzzGBS(f *testing.F) {
	f.Add(good())
	f.Add(good()[:30])
	f.Add(bits.GBS("{}", raw))
	f.Add(bits.Header(4096, raw))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		interfaceID, afuID, length, err := programming.ReadGBS(r)
		if err != nil {
			return
		}
		if got := int64(len(data) - r.Len()); got != length || length > 20+4095 {
			t.Errorf("read %d bytes for a header of %d", got, length)
		}
		for _, id := range []string{interfaceID, afuID} {
			if again, err := programming.ParseID(id); err != nil || again != id {
				t.Errorf("id %q: %v", id, err)
			}
		}
	})
}

// FuzzELF compares our parser with the standard library's.
func FuzzELF(f *testing.F) {
	for _, data := range bits.ELFVariants(bits.Section{Name: ".acl.gbs.gz", Data: raw}, bits.Section{Name: ".text"}) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const name = ".acl.gbs.gz"
		sections, err := programming.ReadSections(bytes.NewReader(data), int64(len(data)), ".acl", name)
		for _, s := range sections {
			if s.Offset < 0 || s.Size < 0 || s.Offset+s.Size > int64(len(data)) {
				t.Fatalf("section %+v of a file of %d bytes", s, len(data))
			}
		}
		if err != nil || len(data) > 1<<16 {
			return
		}
		file, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			return // debug/elf checks more than the sections
		}
		theirs := file.Section(name)
		ours, ok := sections[name]
		if ok != (theirs != nil) || ok && (uint64(ours.Offset) != theirs.Offset || uint64(ours.Size) != theirs.FileSize) {
			t.Errorf("section %+v, %t; debug/elf finds %+v", ours, ok, theirs)
		}
	})
}

func FuzzAOCX(f *testing.F) {
	f.Add(opencl())
	f.Add(bits.AOCXOf(bits.Hash, "board", []byte("no gzip")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return // unpacking a decompression bomb takes too long
		}
		hash, _, n, err := programming.ReadAOCX(bytes.NewReader(data), int64(len(data)), io.Discard)
		if err != nil {
			return
		}
		if n < 1 || n > programming.MaxSize || len(hash) < 8 || len(hash) > 40 {
			t.Errorf("hash %q, raw bitstream of %d bytes", hash, n)
		}
	})
}
