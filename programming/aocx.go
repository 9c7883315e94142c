package programming

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// An AOCX is an ELF file. Its .acl.fpga.bin section contains another ELF file, whose .acl.gbs.gz section contains a
// gzip-compressed GBS. Sources: pkg/fpga/bitstream/aocx.go in intel-device-plugins-for-kubernetes, and the scripts of
// Intel's board support packages, which create the inner file with `aocl binedit fpga.bin add .acl.gbs.gz`.
const (
	sectionImage = ".acl.fpga.bin"
	sectionGBS   = ".acl.gbs.gz"
	sectionHash  = ".acl.rand_hash"
	sectionBoard = ".acl.board"
)

// OpenCL is the AFU ID of every AOCX file, no matter which OpenCL kernels it contains.
const OpenCL = "18b79ffa2ee54aa096ef4230dafacb5f"

// aocxParts holds an AOCX's hash and board, and the position of its compressed GBS.
type aocxParts struct {
	hash, board string
	gz          section
}

func readAOCX(r io.ReaderAt, size int64) (aocxParts, error) {
	outer, err := readSections(r, size, sectionImage, sectionHash, sectionBoard)
	if err != nil {
		return aocxParts{}, err
	}
	var p aocxParts
	hash, err := readText(r, outer, sectionHash)
	if err != nil {
		return aocxParts{}, err
	}
	if p.hash, err = ParseFileID(hash); err != nil {
		return aocxParts{}, fmt.Errorf("section %s: %w", sectionHash, err)
	}
	if p.board, err = readText(r, outer, sectionBoard); err != nil {
		return aocxParts{}, err
	}
	image, ok := outer[sectionImage]
	if !ok {
		return aocxParts{}, fmt.Errorf("ELF section %s: found none", sectionImage)
	}
	inner, err := readSections(io.NewSectionReader(r, image.offset, image.size), image.size, sectionGBS)
	if err != nil {
		return aocxParts{}, fmt.Errorf("section %s: %w", sectionImage, err)
	}
	if p.gz, ok = inner[sectionGBS]; !ok {
		return aocxParts{}, fmt.Errorf("section %s: ELF section %s: found none", sectionImage, sectionGBS)
	}
	p.gz.offset += image.offset
	return p, nil
}

// readText returns a section's text with surrounding white space removed, or "" if there is no such section.
func readText(r io.ReaderAt, sections map[string]section, name string) (string, error) {
	const most = 256
	s := sections[name]
	if s.size > most {
		return "", fmt.Errorf("section %s: found %d bytes, want at most %d", name, s.size, most)
	}
	b := make([]byte, s.size)
	if _, err := r.ReadAt(b, s.offset); err != nil && s.size > 0 {
		return "", ends(err, "section %s is cut off", name)
	}
	return strings.Trim(string(b), "\x00 \t\r\n"), nil
}

// ParseFileID parses an ID that the store uses as a file name: an AFU's ID or an AOCX's hash. It accepts the same
// lengths as the afuId field of Intel's AcceleratorFunction.
func ParseFileID(s string) (string, error) {
	hash := strings.ToLower(s)
	if len(hash) < 8 || len(hash) > 40 || strings.Trim(hash, "0123456789abcdef") != "" {
		return "", fmt.Errorf("found %s, want an id of 8 to 40 hex digits", sysfs.Quote(s))
	}
	return hash, nil
}

// openGzip opens the GBS in a gzip section. It returns the GBS's header and a reader for the raw bitstream.
func openGzip(r io.ReaderAt, gz section) (gbsHeader, io.Reader, error) {
	in, err := gzip.NewReader(bufio.NewReaderSize(io.NewSectionReader(r, gz.offset, gz.size), 64<<10))
	if err != nil {
		return gbsHeader{}, nil, gzipError(err)
	}
	h, err := readGBSHeader(in)
	if err != nil {
		return gbsHeader{}, nil, gzipError(err)
	}
	return h, in, nil
}

// unpackAOCX unpacks the raw bitstream in an AOCX's gzip section into w, and returns the GBS header and the number of
// bytes written. It fails if the bitstream is larger than [MaxSize] or ctx is done.
func unpackAOCX(ctx context.Context, r io.ReaderAt, gz section, w io.Writer) (gbsHeader, int64, error) {
	h, in, err := openGzip(r, gz)
	if err != nil {
		return gbsHeader{}, 0, err
	}
	n, err := io.Copy(w, io.LimitReader(untilDone(ctx, in), MaxSize+1))
	if err != nil {
		return gbsHeader{}, 0, gzipError(err)
	}
	return h, n, checkSize(n)
}

// untilDone returns a reader that reads from r but fails once ctx is done.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func gzipError(err error) error {
	return fmt.Errorf("section %s: %w", sectionGBS, ends(err, "compressed data ends too soon"))
}
