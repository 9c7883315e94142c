package registry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	gbsPath  = bits.Interface + "/" + bits.AFU + ".gbs"
	aocxPath = bits.Interface + "/" + bits.Hash + ".aocx"
	gbsSize  = 8<<20 + 300 // approximately
)

// A bitstream is pushed from one node and pulled on another, by tag and by digest, through a proxy.
func TestPushPull(t *testing.T) {
	r := newRig(t)
	var pushed, pulled struct {
		Reference, Digest, InterfaceID, AFUID, Hash, Path string
		Installed                                         bool
	}
	must.Succeed(t, json.Unmarshal([]byte(r.succeed(t, "push CA -o json GBS NAME")), &pushed))
	compare.Equal(t, "reference", name, pushed.Reference)
	sent := r.proxy.to.Load()
	compare.Equal(t, "second push", "pushed "+name+"@"+pushed.Digest+"\n", r.succeed(t, "push CA GBS NAME"))
	if again := r.proxy.to.Load() - sent; again > 20<<10 {
		t.Errorf("second push: sent %d bytes, want only the manifest", again)
	}
	compare.Equal(t, "pull", "installed STORE/"+gbsPath+"\n", r.succeed(t, "pull CA --store STORE NAME"))
	compare.Equal(t, "content", string(must.Value(os.ReadFile(r.gbs))(t)), string(must.Value(os.ReadFile(filepath.Join(r.store, gbsPath)))(t)))
	received := r.proxy.from.Load()
	compare.Equal(t, "second pull", "nothing changed: the store has the same file at STORE/"+gbsPath+"\n", r.succeed(t, "pull CA --store STORE NAME"))
	if again := r.proxy.from.Load() - received; again > 20<<10 {
		t.Errorf("second pull: received %d bytes, want only the manifest", again)
	}

	// The tag is moved to a different bitstream with the same IDs. The digest still names the first one.
	other := r.write(t, "other.gbs", string(bits.GBS(bits.Metadata(bits.Interface, bits.AFU), []byte("other"))))
	r.succeed(t, "push --quiet CA "+other+" NAME")
	r.fail(t, "pull CA --store STORE NAME", "--force replaces it")
	r.succeed(t, "pull CA --store STORE --force NAME")
	compare.Equal(t, "size of the other one", must.Value(os.Stat(other))(t).Size(), r.files(t)[gbsPath])
	must.Succeed(t, json.Unmarshal([]byte(r.succeed(t, "pull CA --store STORE --force -o json registry.example.com/fpga/nlb@"+pushed.Digest)), &pulled))
	compare.Equal(t, "digest", pushed.Digest, pulled.Digest)
	compare.Equal(t, "installed by digest", true, pulled.Installed)
	compare.Equal(t, "size of the first one", must.Value(os.Stat(r.gbs))(t).Size(), r.files(t)[gbsPath])

	aocx := r.write(t, "vadd.aocx", string(bits.AOCX(bits.Hash, "pac_a10", bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), make([]byte, 1<<20)))))
	r.succeed(t, "push CA "+aocx+" registry.example.com/fpga/vadd")
	compare.Equal(t, "AOCX, latest", "installed STORE/"+aocxPath+"\n", r.succeed(t, "pull CA --store STORE registry.example.com/fpga/vadd:latest"))
	compare.Equal(t, "lines of the list", 3, strings.Count(r.succeed(t, "list --store STORE"), "\n"))

	r.fail(t, "pull CA --store STORE registry.example.com/fpga/none:1.0", "registry.example.com/fpga/none:1.0: found none in the registry")
	r.fail(t, "pull --plain-http --store STORE ADDRESS/fpga/nlb:1.0", "400") // the registry speaks TLS
	r.fail(t, "push CA DIR/ca.pem NAME", "want .gbs or .aocx")
}

func TestCredentials(t *testing.T) {
	r := newRig(t)
	r.succeed(t, "push CA GBS NAME")
	r.login(t, "user:wrong")
	r.fail(t, "pull CA --store STORE NAME", "the registry answers 401 Unauthorized: authentication required, want credentials for registry.example.com")
	r.fail(t, "push CA GBS NAME", "docker login registry.example.com")
	r.write(t, "config.json", "{}")
	r.fail(t, "pull CA --store STORE NAME", "found no credentials for registry.example.com")
	r.write(t, "config.json", `{"credHelpers": {"registry.example.com": "test"}}`)
	r.fail(t, "pull CA --store STORE NAME", "docker-credential-test")
	r.write(t, "docker-credential-test", "#!/bin/sh\nread -r server\n[ \"$1 $server\" = 'get registry.example.com' ] && echo '{\"Username\": \"user\", \"Secret\": \"secret\"}'\n")
	r.succeed(t, "pull CA --store STORE NAME")
	r.write(t, "config.json", "{")
	r.fail(t, "pull CA --store STORE NAME", "config.json")
}

func TestCertificate(t *testing.T) {
	r := newRig(t)
	r.fail(t, "pull --store STORE NAME", "certificate signed by unknown authority: --ca-file FILE names")
	r.fail(t, "push GBS NAME", "certificate signed by unknown authority: --ca-file FILE names")
	r.fail(t, "pull CA --store STORE registry.invalid/nlb", "not registry.invalid\n")
	r.fail(t, "pull --ca-file DIR/key.pem --store STORE NAME", "key.pem, want some in PEM")
	r.fail(t, "pull --ca-file DIR/none.pem --store STORE NAME", "no such file")
	_, err := os.Stat(r.store)
	compare.Equal(t, "store was made", false, err == nil)
}

// A pull whose connection is cut, at any of ten points, resumes from there.
func TestCutPull(t *testing.T) {
	r := newRig(t)
	r.succeed(t, "push CA GBS NAME")
	for i := range int64(10) {
		must.Succeed(t, os.RemoveAll(r.store))
		before := r.proxy.from.Load()
		r.proxy.cutFrom.Store(before + 1 + i*(gbsSize/10)) // the first point is in the TLS handshake
		if i == 9 {
			r.proxy.cutFrom.Store(before + gbsSize - 4<<10)
		}
		r.succeed(t, "pull CA --store STORE NAME")
		compare.Values(t, "files", map[string]int64{gbsPath: must.Value(os.Stat(r.gbs))(t).Size()}, r.files(t))
		compare.Equal(t, "cuts", i+1, r.proxy.cut.Load())
		// Data that HTTP/2 had received when the connection was cut, but that the program hadn't read yet, is sent
		// again.
		if received := r.proxy.from.Load() - before; received > gbsSize+5<<20 {
			t.Errorf("point %d: received %d bytes, want not much more than %d", i, received, gbsSize)
		}
	}
}

// If a pull is terminated or killed, at any point, the next one resumes it.
func TestKilledPull(t *testing.T) {
	r := newRig(t)
	r.succeed(t, "push CA GBS NAME")
	for i := range int64(10) {
		must.Succeed(t, os.RemoveAll(r.store))
		r.proxy.cutFrom.Store(r.proxy.from.Load() + 64<<10 + i*(gbsSize/11))
		cmd := r.command(t, "pull CA --store STORE NAME")
		killed := make(chan struct{})
		r.proxy.onCut = func() {
			cmd.Process.Signal([]os.Signal{syscall.SIGTERM, syscall.SIGKILL}[i%2])
			<-killed
		}
		must.Succeed(t, cmd.Start())
		cmd.Wait() // the error says how it has ended
		close(killed)
		files, rest := r.files(t), int64(gbsSize)
		for _, part := range files { // none if nothing had been written yet
			rest -= part
		}
		if cmd.ProcessState.Success() || len(files) > 1 || files[gbsPath] > 0 || i == 9 && rest > gbsSize*3/4 {
			t.Fatalf("point %d: %v, %v, want a part of the file", i, cmd.ProcessState, files)
		}
		before := r.proxy.from.Load()
		r.succeed(t, "pull CA --store STORE NAME")
		compare.Values(t, "files", map[string]int64{gbsPath: must.Value(os.Stat(r.gbs))(t).Size()}, r.files(t))
		if received := r.proxy.from.Load() - before; received > rest+100<<10 {
			t.Errorf("point %d: received %d bytes, want the rest, %d", i, received, rest)
		}
	}
}

// A push whose connection is cut sends the file again.
func TestCutPush(t *testing.T) {
	r := newRig(t)
	for i := range int64(3) {
		file := r.write(t, "cut.gbs", string(bits.GBS(bits.Metadata(bits.Interface, bits.AFU), append(make([]byte, 8<<20), byte(i)))))
		r.proxy.cutTo.Store(r.proxy.to.Load() + 1 + i*(gbsSize*9/20))
		r.succeed(t, "push CA "+file+" NAME")
		r.succeed(t, "pull CA --force --store STORE NAME")
		compare.Equal(t, "content", string(must.Value(os.ReadFile(file))(t)), string(must.Value(os.ReadFile(filepath.Join(r.store, gbsPath)))(t)))
		compare.Equal(t, "cuts", i+1, r.proxy.cut.Load())
	}
}

// If the disk is full, the pull fails without leaving any files behind. The disk may fill up while the file is being
// downloaded or while it is being copied.
func TestFullDisk(t *testing.T) {
	for _, size := range []string{"4m", "12m"} {
		t.Run(size, func(t *testing.T) {
			r := newRig(t)
			mount(t, r.store, size)
			r.succeed(t, "push CA GBS NAME")
			r.fail(t, "pull CA --store STORE NAME", "no space left on device")
			compare.Empty(t, "files", r.files(t))
			must.Succeed(t, syscall.Mount("tmpfs", r.store, "tmpfs", syscall.MS_REMOUNT, "size=20m"))
			r.succeed(t, "pull CA --store STORE NAME")
		})
	}
}
