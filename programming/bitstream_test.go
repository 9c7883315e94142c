package programming_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/programming"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var raw = []byte("a raw bitstream")

func good() []byte { return bits.GBS(bits.Metadata(bits.Interface, bits.AFU), raw) }

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, data, 0o644))
	return path
}

// ownDir returns a directory that a store accepts, whatever the umask.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	return dir
}

func TestOpen(t *testing.T) {
	const upper = "CE489693-98F0-5F33-946D-560708BE108A"
	gbs := programming.Bitstream{Format: "gbs", InterfaceID: bits.Interface, AFUID: bits.AFU, Size: int64(len(raw))}
	aocx := programming.Bitstream{Format: "aocx", InterfaceID: bits.Interface, AFUID: bits.OpenCL, Size: int64(len(raw)), Hash: bits.Hash, Board: "pac_a10"}
	opencl := bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), raw)
	for _, test := range []struct {
		name string
		file []byte
		want programming.Bitstream
	}{
		{"GBS", good(), gbs},
		{"ids with dashes and capitals", bits.GBS(bits.Metadata(upper, strings.ToUpper(bits.AFU)), raw), gbs},
		{"padded metadata", bits.GBS(bits.Metadata(bits.Interface, bits.AFU)+"\x00\x00", raw), gbs},
		{"longest metadata", bits.GBS(bits.Metadata(bits.Interface, bits.AFU)+strings.Repeat(" ", 4095-len(bits.Metadata(bits.Interface, bits.AFU))), raw), gbs},
		{"AOCX", bits.AOCX(bits.Hash, "pac_a10", opencl), aocx},
		{"hash in capitals", bits.AOCX(strings.ToUpper(bits.Hash), "pac_a10\x00", opencl), aocx},
		{"AOCX in two gzip members", bits.AOCXOf(bits.Hash, "pac_a10", append(bits.Gzip(opencl[:100]), bits.Gzip(opencl[100:])...)), aocx},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := ownDir(t)
			b, err := programming.Open(write(t, filepath.Join(dir, "file."+test.want.Format), test.file))
			if err == nil {
				err = b.Check(t.Context())
			}
			must.Succeed(t, err)
			compare.Values(t, "bitstream", test.want, *b, cmpopts.IgnoreUnexported(*b), cmpopts.IgnoreFields(*b, "Path"))
			mapped := must.Value(b.Map(t.Context(), programming.Store(dir)))(t)
			b.Close()
			if !bytes.Equal(mapped.Data, raw) {
				t.Errorf("mapped %q, want %q", mapped.Data, raw)
			}
			must.Succeed(t, mapped.Close())
			compare.Empty(t, "left behind", must.Value(filepath.Glob(filepath.Join(dir, ".unpack-*")))(t))
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	opencl := bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), raw)
	gz := bits.Gzip(opencl)
	inner := func(sections ...bits.Section) []byte {
		return bits.ELF(bits.Section{Name: ".acl.rand_hash", Data: []byte(bits.Hash)}, bits.Section{Name: ".acl.fpga.bin", Data: bits.ELF(sections...)})
	}
	endlessNames := bits.ELF()
	endlessNames = append(endlessNames[:len(endlessNames)-64+32], // size of the name section
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, test := range []struct {
		name, file string
		data       []byte
		want       string // substring of the error
	}{
		{"other extension", "x.bin", good(), `extension ".bin", want .gbs or .aocx`},
		{"empty GBS", "x.gbs", nil, "header: found 0 bytes, want 20"},
		{"other magic", "x.gbs", []byte("PK and something more than that"), `first bytes: found "PK and something", want "XeonFPGA`},
		{"no metadata", "x.gbs", bits.Header(0, raw), "metadata: found 0 bytes, want 1 to 4095"},
		{"metadata of 4096 bytes", "x.gbs", bits.Header(4096, make([]byte, 5000)), "metadata: found 4096 bytes, want 1 to 4095"},
		{"cut off in the metadata", "x.gbs", good()[:100], "metadata: found 80 bytes, want "},
		{"cut off after the metadata", "x.gbs", bits.GBS(bits.Metadata(bits.Interface, bits.AFU), nil), "raw bitstream: found none after the metadata"},
		{"metadata no JSON", "x.gbs", bits.GBS("{", raw), "not the JSON of a GBS: unexpected EOF"},
		{"metadata of another type", "x.gbs", bits.GBS(`{"afu-image": 5}`, raw), "not the JSON of a GBS"},
		{"no cluster", "x.gbs", bits.GBS(bits.Metadata(bits.Interface), raw), "metadata: found 0 accelerator-clusters, want 1"},
		{"two clusters", "x.gbs", bits.GBS(bits.Metadata(bits.Interface, bits.AFU, bits.OtherAFU), raw), "metadata: found 2 accelerator-clusters, want 1"},
		{"no interface", "x.gbs", bits.GBS(bits.Metadata("", bits.AFU), raw), "metadata: interface-uuid: "},
		{"interface a path", "x.gbs", bits.GBS(bits.Metadata("../../../../../../etc/cron.d/xxx", bits.AFU), raw), "metadata: interface-uuid: "},
		{"AFU too short", "x.gbs", bits.GBS(bits.Metadata(bits.Interface, bits.AFU[1:]), raw), "metadata: accelerator-type-uuid: "},

		{"empty AOCX", "x.aocx", nil, `first bytes: found "", want "\x7fELF"`},
		{"AOCX with a GBS", "x.aocx", good(), `first bytes: found "Xeon", want "\x7fELF"`},
		{"ELF header cut off", "x.aocx", bits.AOCX(bits.Hash, "", opencl)[:63], "ELF header: found class 2 with 63 bytes"},
		{"section table cut off", "x.aocx", bits.AOCX(bits.Hash, "", opencl)[:500], "ELF section table: found 320 bytes at"},
		{"section names without end", "x.aocx", endlessNames, "ELF section names: found 9223372036854775807 bytes"},
		{"no image", "x.aocx", bits.ELF(bits.Section{Name: ".acl.rand_hash", Data: []byte(bits.Hash)}), "ELF section .acl.fpga.bin: found none"},
		{"no hash", "x.aocx", bits.ELF(bits.Section{Name: ".acl.fpga.bin", Data: bits.ELF(bits.Section{Name: ".acl.gbs.gz", Data: gz})}), `section .acl.rand_hash: found "", want an id of 8 to 40 hex digits`},
		{"hash a path", "x.aocx", bits.AOCX("../../../etc/cron.d/x", "", opencl), `found "../../../etc/cron.d/x", want an id of 8 to 40 hex digits`},
		{"hash too long", "x.aocx", bits.AOCX(strings.Repeat("a", 1<<20), "", opencl), "section .acl.rand_hash: found 1048577 bytes, want at most 256"},
		{"image no ELF", "x.aocx", bits.ELF(bits.Section{Name: ".acl.rand_hash", Data: []byte(bits.Hash)}, bits.Section{Name: ".acl.fpga.bin", Data: raw}), "section .acl.fpga.bin: first bytes: found"},
		{"image twice", "x.aocx", bits.ELF(bits.Section{Name: ".acl.fpga.bin", Data: raw}, bits.Section{Name: ".acl.fpga.bin", Data: raw}), ".acl.fpga.bin: found twice"},
		{"no GBS", "x.aocx", inner(bits.Section{Name: ".acl.gbs", Data: gz}), "ELF section .acl.gbs.gz: found none"},
		{"GBS section too long", "x.aocx", inner(bits.Section{Name: ".acl.gbs.gz", Data: gz, Size: 1 << 40}), ".acl.gbs.gz: found 1099511627776 bytes at"},
		{"GBS section outside", "x.aocx", inner(bits.Section{Name: ".acl.gbs.gz", Data: gz, Offset: 1 << 20}), "bytes at offset 1048576, want them within"},
		{"GBS section wraps around", "x.aocx", inner(bits.Section{Name: ".acl.gbs.gz", Data: gz, Offset: 64, Size: 1<<64 - 32}), "want them within"},
		{"GBS section without data", "x.aocx", inner(bits.Section{Name: ".acl.gbs.gz", Type: 8, Size: 100}), "found no data or compressed data"},
		{"GBS section compressed by ELF", "x.aocx", inner(bits.Section{Name: ".acl.gbs.gz", Data: gz, Flags: 0x800}), "found no data or compressed data"},
		{"not compressed", "x.aocx", bits.AOCXOf(bits.Hash, "", opencl), "section .acl.gbs.gz: gzip: invalid header"},
		{"compressed data cut off", "x.aocx", bits.AOCXOf(bits.Hash, "", gz[:len(gz)-9]), "compressed data ends too soon"},
		{"compressed data damaged", "x.aocx", bits.AOCXOf(bits.Hash, "", append(gz[:len(gz)-5:len(gz)-5], 1, 2, 3, 4, 5)), "gzip: invalid checksum"},
		{"compressed GBS with no JSON", "x.aocx", bits.AOCX(bits.Hash, "", bits.GBS("{", raw)), "not the JSON of a GBS: unexpected EOF"},
		{"compressed GBS cut off", "x.aocx", bits.AOCX(bits.Hash, "", opencl[:50]), "metadata: found 30 bytes, want"},
		{"board too long", "x.aocx", bits.AOCX(bits.Hash, strings.Repeat("b", 300), opencl), "section .acl.board: found 300 bytes, want at most 256"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), test.file), test.data)
			err := openAndCheck(t, path)
			if err == nil {
				t.Fatalf("opened, want an error with %q", test.want)
			}
			if !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s: …%s", err, path, test.want)
			}
		})
	}
}

// Open opens only regular files: a FIFO would block, and opening a device can have side effects.
func TestOpenNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "x.gbs")
	must.Succeed(t, syscall.Mkfifo(fifo, 0o600))
	link := filepath.Join(dir, "null.gbs")
	must.Succeed(t, os.Symlink(os.DevNull, link))
	directory := filepath.Join(dir, "dir.gbs")
	must.Succeed(t, os.Mkdir(directory, 0o755))
	for _, path := range []string{fifo, link, directory} {
		compare.Error(t, path, "want a regular file", compare.ErrorOf(programming.Open(path)))
	}
	if _, err := programming.Open(filepath.Join(dir, "none.gbs")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// A file that changes after it was opened is rejected before any of its bytes are used.
func TestMapChanged(t *testing.T) {
	stored := func(afuID string) []byte { // the same length for every ID
		var gz bytes.Buffer
		w, err := gzip.NewWriterLevel(&gz, gzip.NoCompression)
		if err == nil {
			_, err = w.Write(bits.GBS(bits.Metadata(bits.Interface, afuID), raw))
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return bits.AOCXOf(bits.Hash, "", gz.Bytes())
	}
	for _, test := range []struct {
		file          string
		before, after []byte
		want          string
	}{
		{"x.gbs", good(), good()[:len(good())-1], "bytes, want"},
		{"x.aocx", stored(bits.OpenCL), stored(bits.AFU), "changed while it was read"},
	} {
		dir := ownDir(t)
		path := write(t, filepath.Join(dir, test.file), test.before)
		b := must.Value(programming.Open(path))(t)
		defer b.Close()
		write(t, path, test.after)
		compare.Error(t, test.file, test.want, compare.ErrorOf(b.Map(t.Context(), programming.Store(dir))))
	}
}

func TestELFVariants(t *testing.T) {
	for name, data := range bits.ELFVariants(bits.Section{Name: ".a", Data: []byte("x")}, bits.Section{Name: ".abc", Data: []byte("four")}) {
		got, err := programming.ReadSections(bytes.NewReader(data), int64(len(data)), ".ab", ".abc", ".missing")
		if err != nil || len(got) != 1 || got[".abc"].Size != 4 {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		if at := got[".abc"].Offset; string(data[at:at+4]) != "four" {
			t.Errorf("%s: section at %d", name, at)
		}
	}
}

// A decompression bomb is rejected before it takes up memory. For bitstreams that get programmed, the fpga package's
// tests check the memory use.
func TestTooLarge(t *testing.T) {
	const most = 16 << 20
	dir := ownDir(t)
	head := bits.Gzip(bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), nil))
	zeros := bytes.Repeat(bits.Gzip(make([]byte, 1<<20)), programming.MaxSize>>20+1)
	bomb := write(t, filepath.Join(dir, "bomb.aocx"), bits.AOCXOf(bits.Hash, "", append(head, zeros...)))
	tooLarge := write(t, filepath.Join(dir, "large.gbs"), good())
	must.Succeed(t, os.Truncate(tooLarge, programming.MaxSize+1))
	for path, want := range map[string]string{
		bomb:     "raw bitstream: found more than 536870912 bytes, want at most 536870912",
		tooLarge: "found 536870913 bytes, want at most 536870912",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		compare.Error(t, path, want, openAndCheck(t, path))
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
			t.Errorf("%s: %d bytes allocated, want at most %d", path, allocated, most)
		}
	}
}

// openAndCheck opens and checks a bitstream.
func openAndCheck(t *testing.T, path string) error {
	b, err := programming.Open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Check(t.Context())
}
