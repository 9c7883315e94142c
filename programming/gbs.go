package programming

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// A GBS consists of 16 magic bytes, the metadata's length as a little-endian u32, the metadata as JSON, and the raw
// bitstream, which extends to the end of the file. Source: OPAE's packager, tools/extra/packager/metadata in opae-sdk.
const (
	gbsMagic    = "XeonFPGA\xb7GBSv001"
	maxMetadata = 4095 // the limit in OPAE and Intel's tool
)

// gbsHeader is the part of a GBS before the raw bitstream.
type gbsHeader struct {
	interfaceID, afuID string
	length             int64 // the total length of this part, in bytes
}

// readGBSHeader reads a GBS up to the start of the raw bitstream, and not a byte further.
func readGBSHeader(r io.Reader) (gbsHeader, error) {
	fixed := make([]byte, len(gbsMagic)+4)
	if n, err := io.ReadFull(r, fixed); err != nil {
		return gbsHeader{}, ends(err, "header: found %d bytes, want %d", n, len(fixed))
	}
	if magic := fixed[:len(gbsMagic)]; string(magic) != gbsMagic {
		return gbsHeader{}, fmt.Errorf("first bytes: found %q, want %q as in a GBS", magic, gbsMagic)
	}
	length := binary.LittleEndian.Uint32(fixed[len(gbsMagic):])
	if length < 1 || length > maxMetadata {
		return gbsHeader{}, fmt.Errorf("metadata: found %d bytes, want 1 to %d", length, maxMetadata)
	}
	text := make([]byte, length)
	if n, err := io.ReadFull(r, text); err != nil {
		return gbsHeader{}, ends(err, "metadata: found %d bytes, want %d as the header announces", n, length)
	}
	h, err := parseMetadata(text)
	h.length = int64(len(fixed)) + int64(length)
	return h, err
}

// parseMetadata parses the first JSON value in text and ignores the rest, as OPAE and Intel's tool do.
func parseMetadata(text []byte) (gbsHeader, error) {
	var m struct {
		Image struct {
			InterfaceUUID string `json:"interface-uuid"`
			Clusters      []struct {
				TypeUUID string `json:"accelerator-type-uuid"`
			} `json:"accelerator-clusters"`
		} `json:"afu-image"`
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&m); err != nil {
		// Don't use %w, because io.EOF doesn't mean the end of the file here.
		return gbsHeader{}, fmt.Errorf("metadata: not the JSON of a GBS: %v", err)
	}
	if n := len(m.Image.Clusters); n != 1 {
		return gbsHeader{}, fmt.Errorf("metadata: found %d accelerator-clusters, want 1", n)
	}
	var h gbsHeader
	var err error
	if h.interfaceID, err = ParseID(m.Image.InterfaceUUID); err != nil {
		return gbsHeader{}, fmt.Errorf("metadata: interface-uuid: %w", err)
	}
	if h.afuID, err = ParseID(m.Image.Clusters[0].TypeUUID); err != nil {
		return gbsHeader{}, fmt.Errorf("metadata: accelerator-type-uuid: %w", err)
	}
	return h, nil
}

// ParseID parses an AFU or interface ID, with or without dashes. It returns 32 lower-case hex digits.
func ParseID(s string) (string, error) {
	return sysfs.ParseID(strings.ReplaceAll(s, "-", ""))
}

// ends returns an error of the given format if err says that the data has ended. Otherwise, it returns err.
func ends(err error, format string, args ...any) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf(format, args...)
	}
	return err
}
