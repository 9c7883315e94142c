// Package bitstreamtest generates valid and broken bitstreams for tests. It doesn't have any state.
package bitstreamtest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
)

// IDs for tests: an interface, two AFUs, and the AFU that every AOCX has.
const (
	Interface = "ce48969398f05f33946d560708be108a"
	AFU       = "d8424dc4a4a3c413f89e433683f9040b"
	OtherAFU  = "f7df405cbd7acf7222f144b0b93acd18"
	OpenCL    = "18b79ffa2ee54aa096ef4230dafacb5f"
	Hash      = "0123456789abcdef0123456789abcdef01234567" // an AOCX's hash
)

// Metadata returns a GBS's metadata, with an accelerator cluster for each AFU.
func Metadata(interfaceID string, afuIDs ...string) string {
	var clusters []byte
	for i, id := range afuIDs {
		if i > 0 {
			clusters = append(clusters, ", "...)
		}
		clusters = fmt.Appendf(clusters, `{"total-contexts": 1, "name": "nlb_400", "accelerator-type-uuid": %q}`, id)
	}
	return fmt.Sprintf(`{"version": 1, "platform-name": "DCP", "afu-image": {"magic-no": 488605312, "power": 0,
		"interface-uuid": %q, "accelerator-clusters": [%s]}}`, interfaceID, clusters)
}

// GBS returns a GBS with the given metadata, which doesn't need to be valid.
func GBS(metadata string, raw []byte) []byte {
	return Header(uint32(len(metadata)), append([]byte(metadata), raw...))
}

// Header returns a GBS whose header claims that the metadata has the given length.
func Header(length uint32, rest []byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte("XeonFPGA\xb7GBSv001"), length), rest...)
}

// Section is a section of an ELF file.
type Section struct {
	Name  string
	Data  []byte
	Type  uint32 // 0 means SHT_PROGBITS
	Flags uint64
	// If Size or Offset isn't 0, it replaces the true value in the section table.
	Size, Offset uint64
}

// ELF returns a little-endian ELF64 file like the ones that aocl writes.
func ELF(sections ...Section) []byte {
	return elf(binary.LittleEndian, true, sections)
}

// ELFVariants returns the sections as ELF64 and ELF32 files in both byte orders.
func ELFVariants(sections ...Section) map[string][]byte {
	return map[string][]byte{
		"ELF64 little-endian": elf(binary.LittleEndian, true, sections),
		"ELF64 big-endian":    elf(binary.BigEndian, true, sections),
		"ELF32 little-endian": elf(binary.LittleEndian, false, sections),
		"ELF32 big-endian":    elf(binary.BigEndian, false, sections),
	}
}

func elf(order binary.AppendByteOrder, wide bool, sections []Section) []byte {
	headerSize, entrySize := 52, 40
	if wide {
		headerSize, entrySize = 64, 64
	}
	names := []byte{0}
	for _, s := range sections {
		names = append(append(names, s.Name...), 0)
	}
	all := append([]Section{{}}, sections...)
	all = append(all, Section{Data: names, Type: 3}) // SHT_STRTAB

	var body, table []byte
	word := func(b []byte, v uint64) []byte {
		if wide {
			return order.AppendUint64(b, v)
		}
		return order.AppendUint32(b, uint32(v))
	}
	nameAt := 1
	for i, s := range all {
		at, offset, size := 0, uint64(headerSize+len(body)), uint64(len(s.Data))
		if s.Name != "" {
			at = nameAt
			nameAt += len(s.Name) + 1
		}
		if s.Offset != 0 {
			offset = s.Offset
		}
		if s.Size != 0 {
			size = s.Size
		}
		if i > 0 && s.Type == 0 {
			s.Type = 1
		}
		body = append(body, s.Data...)
		h := order.AppendUint32(nil, uint32(at))
		h = order.AppendUint32(h, s.Type)
		h = word(h, s.Flags)
		h = word(h, 0) // address
		h = word(h, offset)
		h = word(h, size)
		table = append(table, append(h, make([]byte, entrySize-len(h))...)...)
	}

	ident := []byte{0x7f, 'E', 'L', 'F', 1, 1, 1}
	if wide {
		ident[4] = 2
	}
	if order.String() == binary.BigEndian.String() {
		ident[5] = 2
	}
	head := append(ident, make([]byte, 16-len(ident))...)
	head = order.AppendUint16(head, 1) // type: relocatable
	head = order.AppendUint16(head, 62)
	head = order.AppendUint32(head, 1)
	head = word(head, 0) // entry
	head = word(head, 0) // program headers
	head = word(head, uint64(headerSize+len(body)))
	head = order.AppendUint32(head, 0) // flags
	for _, v := range []int{headerSize, 0, 0, entrySize, len(all), len(all) - 1} {
		head = order.AppendUint16(head, uint16(v))
	}
	return append(append(head, body...), table...)
}

// AOCX returns an AOCX that contains a GBS.
func AOCX(hash, board string, gbs []byte) []byte {
	return AOCXOf(hash, board, Gzip(gbs))
}

// AOCXOf returns an AOCX that contains gz in place of a compressed GBS.
func AOCXOf(hash, board string, gz []byte) []byte {
	return ELF(
		Section{Name: ".acl.board", Data: []byte(board)},
		Section{Name: ".acl.rand_hash", Data: []byte(hash + "\n")},
		Section{Name: ".acl.fpga.bin", Data: ELF(Section{Name: ".acl.gbs.gz", Data: gz})},
	)
}

// Gzip returns data compressed with gzip.
func Gzip(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
