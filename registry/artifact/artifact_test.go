package artifact_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/artifact"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const golden = `{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.manifest.v1+json",
  "artifactType": "application/vnd.b-com.accelerator.bitstream.v1",
  "config": {
    "mediaType": "application/vnd.oci.empty.v1+json",
    "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    "size": 2,
    "data": "e30="
  },
  "layers": [
    {
      "mediaType": "application/vnd.b-com.accelerator.bitstream.v1.aocx",
      "digest": "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
      "size": 1,
      "annotations": {
        "org.opencontainers.image.title": "vadd.aocx"
      }
    }
  ],
  "annotations": {
    "com.b-com.accelerator.afu-id": "18b79ffa2ee54aa096ef4230dafacb5f",
    "com.b-com.accelerator.board": "pac_a10",
    "com.b-com.accelerator.format": "aocx",
    "com.b-com.accelerator.hash": "0123456789abcdef0123456789abcdef01234567",
    "com.b-com.accelerator.interface-id": "ce48969398f05f33946d560708be108a"
  }
}`

// The manifest is an interface: other versions of this program, and other programs, read it.
func TestManifest(t *testing.T) {
	d := artifact.Description{Format: programming.AOCX, InterfaceID: bits.Interface, AFUID: bits.OpenCL, Hash: bits.Hash, Board: "pac_a10",
		File: digest.FromString("x"), Size: 1}
	compare.Values(t, "manifest", golden, string(must.Value(d.Manifest("vadd.aocx"))(t)))
	compare.Values(t, "parsed", d, must.Value(artifact.Parse([]byte(golden)))(t))
}

// The hash becomes part of a path.
func TestParseHash(t *testing.T) {
	for _, hash := range []string{"", "0123", "../../../etc/passwd", "0123456789/.."} {
		_, err := artifact.Parse([]byte(strings.Replace(golden, bits.Hash, hash, 1)))
		compare.Error(t, hash, "annotation com.b-com.accelerator.hash: found ", err)
	}
}

// What a manifest announces must be in the file.
func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vadd.aocx")
	must.Succeed(t, os.WriteFile(path, bits.AOCX(bits.Hash, "pac_a10", bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), []byte("raw"))), 0o600))
	b := must.Value(programming.Open(path))(t)
	defer b.Close()
	good := artifact.Describe(b, digest.FromString("x"), 1)
	must.Succeed(t, good.Check(b))
	for want, change := range map[string]func(d *artifact.Description){
		"format": func(d *artifact.Description) { d.Format = programming.GBS }, "interface-id": func(d *artifact.Description) { d.InterfaceID = bits.AFU },
		"afu-id": func(d *artifact.Description) { d.AFUID = bits.AFU }, "hash": func(d *artifact.Description) { d.Hash = "01234567" },
		"board": func(d *artifact.Description) { d.Board = "" },
	} {
		d := good
		change(&d)
		compare.Error(t, want, "annotation com.b-com.accelerator."+want+": found ", d.Check(b))
	}
}

// A manifest that is accepted describes a bitstream. Writing and parsing it again changes nothing.
func FuzzParse(f *testing.F) {
	f.Add([]byte(golden))
	f.Add([]byte(`{"schemaVersion": 2, "layers": [{}], "annotations": {"com.b-com.accelerator.format": "gbs"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := artifact.Parse(text)
		if err != nil {
			return
		}
		if len(d.InterfaceID) != 32 || len(d.AFUID) != 32 || d.Size < 1 || d.Size > programming.MaxSize || len(d.File) != len("sha256:")+64 {
			t.Errorf("%s: found %+v", text, d)
		}
		again, err := artifact.Parse(must.Value(d.Manifest("x"))(t))
		compare.NoError(t, fmt.Sprintf("%s: parsed again", text), err)
		compare.Values(t, fmt.Sprintf("%s: parsed again", text), d, again)
	})
}
