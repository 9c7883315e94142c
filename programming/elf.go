package programming

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// section is a part of a file.
type section struct {
	offset, size int64
}

// readSections returns the sections with these names in an ELF file of size bytes. It checks that
// they are within the file. It is used instead of debug/elf, which reads the whole table of names
// into memory, and unpacks it if it is compressed. Source: elf(5).
func readSections(r io.ReaderAt, size int64, names ...string) (map[string]section, error) {
	head := make([]byte, 64) // an ELF64 header; an ELF32 one has 52 bytes
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	head = head[:n]
	if len(head) < 6 || string(head[:4]) != "\x7fELF" {
		return nil, fmt.Errorf("first bytes: found %q, want %q as in an ELF file", head[:min(4, n)], "\x7fELF")
	}
	wide := head[4] == 2
	if headerSize := pick(wide, 64, 52); !wide && head[4] != 1 || len(head) < headerSize {
		return nil, fmt.Errorf("ELF header: found class %d with %d bytes, want class 1 with 52 or class 2 with 64", head[4], len(head))
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == 2 {
		order = binary.BigEndian
	} else if head[5] != 1 {
		return nil, fmt.Errorf("ELF byte order: found %d, want 1 or 2", head[5])
	}
	// word reads an address or a size, which has 8 bytes in ELF64 and 4 in ELF32.
	word := func(b []byte, at64, at32 int) uint64 {
		if wide {
			return order.Uint64(b[at64:])
		}
		return uint64(order.Uint32(b[at32:]))
	}
	half := func(at64, at32 int) int { return int(order.Uint16(head[pick(wide, at64, at32):])) }

	entry, count, namesAt := half(58, 46), half(60, 48), half(62, 50)
	if want := pick(wide, 64, 40); entry != want || count == 0 || namesAt >= count {
		return nil, fmt.Errorf("ELF sections: found %d of %d bytes with the names in section %d, want sections of %d bytes and the names in one of them",
			count, entry, namesAt, want)
	}
	at, err := inside(section64{word(head, 40, 32), uint64(count) * uint64(entry)}, size)
	if err != nil {
		return nil, fmt.Errorf("ELF section table: %w", err)
	}
	table := make([]byte, at.size) // below 4 MiB: both factors have 16 bits, and one is 64
	if _, err := r.ReadAt(table, at.offset); err != nil {
		return nil, ends(err, "ELF section table is cut off")
	}
	place := func(header []byte) (section, error) {
		return inside(section64{word(header, 24, 16), word(header, 32, 20)}, size)
	}
	text, err := place(table[namesAt*entry:])
	if err != nil {
		return nil, fmt.Errorf("ELF section names: %w", err)
	}

	longest := 0
	for _, name := range names {
		longest = max(longest, len(name))
	}
	buf := make([]byte, longest+1)
	found := make(map[string]section)
	for header := range slices.Chunk(table, entry) {
		begin := int64(order.Uint32(header))
		if begin >= text.size {
			continue
		}
		b := buf[:min(int64(len(buf)), text.size-begin)]
		if _, err := r.ReadAt(b, text.offset+begin); err != nil {
			return nil, ends(err, "ELF section names are cut off")
		}
		i := slices.IndexFunc(names, func(name string) bool {
			return len(b) > len(name) && string(b[:len(name)]) == name && b[len(name)] == 0
		})
		if i < 0 {
			continue
		}
		name := names[i]
		if _, twice := found[name]; twice {
			return nil, fmt.Errorf("ELF section %s: found twice, want it once", name)
		}
		const noBits, compressed = 8, 0x800 // SHT_NOBITS, SHF_COMPRESSED
		if kind := order.Uint32(header[4:]); kind == noBits || word(header, 8, 8)&compressed != 0 {
			return nil, fmt.Errorf("ELF section %s: found no data or compressed data, want plain data", name)
		}
		if found[name], err = place(header); err != nil {
			return nil, fmt.Errorf("ELF section %s: %w", name, err)
		}
	}
	return found, nil
}

// section64 is a part of a file with an offset and a size from the file, which are not checked.
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
