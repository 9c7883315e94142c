package programming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

// MaxSize is the maximum size in bytes of a bitstream file, and of the raw bitstream in it. The largest bitstreams we
// know of are about 200 MiB.
const MaxSize = 512 << 20

// Bitstream formats, which double as file extensions.
const (
	GBS  = "gbs"
	AOCX = "aocx"
)

// Bitstream is an open file that contains a bitstream.
type Bitstream struct {
	Path        string
	Format      string // GBS or AOCX
	InterfaceID string // of the region it was built for: 32 lower-case hex digits
	AFUID       string // of its AFU: 32 lower-case hex digits
	Size        int64  // of the raw bitstream, in bytes; 0 for an AOCX until Check or Map is called
	Hash        string // for an AOCX: 8 to 40 lower-case hex digits
	Board       string // for an AOCX: any text, or ""

	file     *os.File
	fileSize int64
	part     section // where in the file the raw bitstream is; in an AOCX, it is compressed
}

// Open opens a bitstream and reads its IDs. The file extension determines the format. Open doesn't read an AOCX's
// entire compressed part; only Check and Map do. Errors include the file's path.
func Open(path string) (*Bitstream, error) {
	format, err := formatOf(path)
	if err != nil {
		return nil, err
	}
	// Open only regular files, because opening a device can have side effects. O_NONBLOCK prevents the open call from
	// blocking if a FIFO has replaced the file in the meantime.
	info, err := os.Stat(path)
	if err == nil {
		err = privatedir.CheckRegular(path, info)
	}
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return parse(path, format, file)
}

func formatOf(path string) (string, error) {
	switch ext := filepath.Ext(path); ext {
	case "." + GBS, "." + AOCX:
		return ext[1:], nil
	default:
		return "", fmt.Errorf("%s: found extension %q, want .gbs or .aocx", path, ext)
	}
}

// parse reads a bitstream from a file. The Bitstream takes ownership of the file; on error, parse closes it.
func parse(path, format string, file *os.File) (_ *Bitstream, err error) {
	b := &Bitstream{Path: path, Format: format, file: file}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := privatedir.CheckRegular(path, info); err != nil {
		return nil, err
	}
	b.fileSize = info.Size()
	if b.fileSize > MaxSize {
		return nil, fmt.Errorf("%s: found %d bytes, want at most %d", path, b.fileSize, MaxSize)
	}
	var header gbsHeader
	if format == GBS {
		header, err = b.readGBS()
	} else {
		header, err = b.readAOCX()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b.InterfaceID, b.AFUID = header.interfaceID, header.afuID
	return b, nil
}

func (b *Bitstream) readGBS() (gbsHeader, error) {
	header, err := readGBSHeader(b.Content())
	if err != nil {
		return gbsHeader{}, err
	}
	b.part = section{header.length, b.fileSize - header.length}
	b.Size = b.part.size
	return header, checkSize(b.Size)
}

func (b *Bitstream) readAOCX() (gbsHeader, error) {
	parts, err := readAOCX(b.file, b.fileSize)
	if err != nil {
		return gbsHeader{}, err
	}
	b.Hash, b.Board, b.part = parts.hash, parts.board, parts.gz
	header, _, err := openGzip(b.file, b.part)
	return header, err
}

// Check checks everything that can be checked without a card, and sets Size. For an AOCX this takes a while, because
// the file has to be unpacked. Check stops when ctx is done.
func (b *Bitstream) Check(ctx context.Context) error {
	if b.Format == GBS {
		return nil // a GBS contains neither its raw bitstream's length nor a checksum
	}
	if err := b.unpack(ctx, io.Discard); err != nil {
		return fmt.Errorf("%s: %w", b.Path, err)
	}
	return nil
}

// unpack writes an AOCX's raw bitstream to w, and sets Size.
func (b *Bitstream) unpack(ctx context.Context, w io.Writer) error {
	header, n, err := unpackAOCX(ctx, b.file, b.part, w)
	if err == nil && (header.interfaceID != b.InterfaceID || header.afuID != b.AFUID) {
		err = errors.New("changed while it was read")
	}
	b.Size = n
	return err
}

func checkSize(n int64) error {
	if n < 1 {
		return errors.New("raw bitstream: found none after the metadata")
	}
	if n > MaxSize {
		return fmt.Errorf("raw bitstream: found more than %d bytes, want at most %[1]d", MaxSize)
	}
	return nil
}

// ID returns the ID that pods use to select the bitstream: a GBS's AFU ID, or an AOCX's hash, because all AOCX files
// have the same AFU ID, [OpenCL].
func (b *Bitstream) ID() string {
	if b.Format == AOCX {
		return b.Hash
	}
	return b.AFUID
}

// Content returns a reader for the whole file. The reader is valid until Close.
func (b *Bitstream) Content() *io.SectionReader {
	return io.NewSectionReader(b.file, 0, b.fileSize)
}

// Close closes the file.
func (b *Bitstream) Close() error {
	return b.file.Close()
}

// Mapping is a raw bitstream mapped into memory.
type Mapping struct {
	// Data is the raw bitstream. It is valid until Close. If another process truncates the file, reading Data kills
	// this process (SIGBUS), and passing Data to an ioctl fails with EFAULT. [Store.Install] never truncates a file; it
	// replaces it.
	Data  []byte
	pages []byte
}

// Map maps the raw bitstream into memory. An AOCX is first unpacked into an unlinked file in the store, which Map
// creates if necessary. If ctx is done before the AOCX has been unpacked, Map returns an error.
func (b *Bitstream) Map(ctx context.Context, s Store) (*Mapping, error) {
	if b.Format == GBS {
		return mapFile(b.Path, b.file, b.part)
	}
	scratch, err := s.scratch()
	if err != nil {
		return nil, err
	}
	defer scratch.Close() // the mapping stays valid
	if err := b.unpack(ctx, scratch); err != nil {
		return nil, fmt.Errorf("%s, unpacked into %s: %w", b.Path, string(s), err)
	}
	return mapFile(b.Path, scratch, section{0, b.Size})
}

// mapFile maps a part of the file. The mapping itself starts at the beginning of the file, because mappings must start
// on a page boundary.
func mapFile(path string, file *os.File, part section) (*Mapping, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	end := part.offset + part.size
	if info.Size() < end {
		return nil, fmt.Errorf("%s: found %d bytes, want %d as when it was opened", path, info.Size(), end)
	}
	pages, err := syscall.Mmap(int(file.Fd()), 0, int(end), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, &fs.PathError{Op: "mmap", Path: path, Err: err}
	}
	return &Mapping{Data: pages[part.offset:end:end], pages: pages}, nil
}

// Close unmaps Data.
func (m *Mapping) Close() error {
	return syscall.Munmap(m.pages)
}
