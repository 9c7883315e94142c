package programming

import (
	"context"
	"io"
)

func ReadSections(r io.ReaderAt, size int64, names ...string) (map[string]Part, error) {
	sections, err := readSections(r, size, names...)
	parts := make(map[string]Part)
	for name, s := range sections {
		parts[name] = Part{s.offset, s.size}
	}
	return parts, err
}

type Part struct{ Offset, Size int64 }

// ReadGBS returns a GBS's IDs and the number of bytes before the raw bitstream.
func ReadGBS(r io.Reader) (interfaceID, afuID string, length int64, err error) {
	h, err := readGBSHeader(r)
	return h.interfaceID, h.afuID, h.length, err
}

// ReadAOCX returns an AOCX's hash and board, and writes the raw bitstream to w.
func ReadAOCX(r io.ReaderAt, size int64, w io.Writer) (hash, board string, n int64, err error) {
	p, err := readAOCX(r, size)
	if err != nil {
		return "", "", 0, err
	}
	_, n, err = unpackAOCX(context.Background(), r, p.gz, w)
	return p.hash, p.board, n, err
}
