package programming

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
)

// section is a part of a file.
type section struct {
	offset, size int64
}

// readSections finds the named sections of an ELF file with the given size, and checks that they lie within the file.
// It doesn't use debug/elf, which would read the whole string table into memory, unpacking it if it is compressed.
// Source: elf(5).
func readSections(r io.ReaderAt, size int64, names ...string) (map[string]section, error) {
	f, err := readELF(r, size)
	if err != nil {
		return nil, err
	}
	longest := 0
	for _, name := range names {
		longest = max(longest, len(name))
	}
	found := make(map[string]section)
	for header := range slices.Chunk(f.table, f.entry) {
		text, err := f.name(header, longest+1)
		if err != nil {
			return nil, err
		}
		name, _, ended := strings.Cut(text, "\x00")
		if !ended || !slices.Contains(names, name) {
			continue
		}
		if _, twice := found[name]; twice {
			return nil, fmt.Errorf("ELF section %s: found twice, want it once", name)
		}
		const noBits, compressed = 8, 0x800 // SHT_NOBITS, SHF_COMPRESSED
		if kind := f.order.Uint32(header[4:]); kind == noBits || f.word(header, 8, 8)&compressed != 0 {
			return nil, fmt.Errorf("ELF section %s: found no data or compressed data, want plain data", name)
		}
		if found[name], err = f.place(header); err != nil {
			return nil, fmt.Errorf("ELF section %s: %w", name, err)
		}
	}
	return found, nil
}

// elfFile is an ELF file.
type elfFile struct {
	io.ReaderAt
	size  int64
	wide  bool // ELF64 rather than ELF32
	order binary.ByteOrder
	table []byte // the section headers; entry is the size of each
	entry int
	names section
}

// readELF reads the ELF header and the section headers of a file.
func readELF(r io.ReaderAt, size int64) (*elfFile, error) {
	head := make([]byte, 64) // the size of an ELF64 header; an ELF32 header has 52 bytes
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	head = head[:n]
	if len(head) < 6 || string(head[:4]) != "\x7fELF" {
		return nil, fmt.Errorf("first bytes: found %q, want %q as in an ELF file", head[:min(4, n)], "\x7fELF")
	}
	f := &elfFile{ReaderAt: r, size: size, wide: head[4] == 2, order: binary.LittleEndian}
	if headerSize := pick(f.wide, 64, 52); !f.wide && head[4] != 1 || len(head) < headerSize {
		return nil, fmt.Errorf("ELF header: found class %d with %d bytes, want class 1 with 52 or class 2 with 64", head[4], len(head))
	}
	if head[5] == 2 {
		f.order = binary.BigEndian
	} else if head[5] != 1 {
		return nil, fmt.Errorf("ELF byte order: found %d, want 1 or 2", head[5])
	}
	half := func(at64, at32 int) int { return int(f.order.Uint16(head[pick(f.wide, at64, at32):])) }
	entry, count, namesAt := half(58, 46), half(60, 48), half(62, 50)
	if want := pick(f.wide, 64, 40); entry != want || count == 0 || namesAt >= count {
		return nil, fmt.Errorf("ELF sections: found %d of %d bytes with the names in section %d, want sections of %d bytes and the names in one of them",
			count, entry, namesAt, want)
	}
	at, err := inside(section64{f.word(head, 40, 32), uint64(count) * uint64(entry)}, size)
	if err != nil {
		return nil, fmt.Errorf("ELF section table: %w", err)
	}
	f.entry, f.table = entry, make([]byte, at.size) // less than 4 MiB: up to 65535 headers of 40 or 64 bytes
	if _, err := r.ReadAt(f.table, at.offset); err != nil {
		return nil, ends(err, "ELF section table is cut off")
	}
	if f.names, err = f.place(f.table[namesAt*entry:]); err != nil {
		return nil, fmt.Errorf("ELF section names: %w", err)
	}
	return f, nil
}

// word reads an address or a size, which takes 8 bytes in ELF64 and 4 bytes in ELF32.
func (f *elfFile) word(b []byte, at64, at32 int) uint64 {
	if f.wide {
		return f.order.Uint64(b[at64:])
	}
	return uint64(f.order.Uint32(b[at32:]))
}

// place returns the position of the section that the header describes.
func (f *elfFile) place(header []byte) (section, error) {
	return inside(section64{f.word(header, 24, 16), f.word(header, 32, 20)}, f.size)
}

// name returns a section's name, cut off after the given number of bytes, or "" if it lies outside of the name section.
func (f *elfFile) name(header []byte, most int) (string, error) {
	begin := int64(f.order.Uint32(header))
	if begin >= f.names.size {
		return "", nil
	}
	b := make([]byte, min(int64(most), f.names.size-begin))
	if _, err := f.ReadAt(b, f.names.offset+begin); err != nil {
		return "", ends(err, "ELF section names are cut off")
	}
	return string(b), nil
}

// section64 contains a section's offset and size as given in the file, before they have been checked.
type section64 struct {
	offset, size uint64
}

func inside(s section64, size int64) (section, error) {
	if s.offset > uint64(size) || s.size > uint64(size)-s.offset {
		return section{}, fmt.Errorf("found %d bytes at offset %d, want them within the %d bytes of the file", s.size, s.offset, size)
	}
	return section{int64(s.offset), int64(s.size)}, nil
}

func pick(wide bool, in64, in32 int) int {
	if wide {
		return in64
	}
	return in32
}
