package registry_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// logLine is a line in keep's log.
type logLine struct{ Event, Reference, Digest, Path, Error, Address string }

// keeper is an accelerator-fpga-registry keep process.
type keeper struct {
	*exec.Cmd
	lines *bufio.Scanner
}

// keep starts keep with the given list of references.
func (r *rig) keep(t *testing.T, args string, references ...string) *keeper {
	t.Helper()
	r.list(t, references...)
	line := strings.NewReplacer("STORE", r.store, "CA", "--ca-file="+r.dir+"/ca.pem", "LIST", r.dir+"/list/references.txt").Replace("keep CA --store STORE --list LIST " + args)
	k := &keeper{Cmd: exec.CommandContext(t.Context(), filepath.Join(*bin, "accelerator-fpga-registry"), strings.Fields(line)...)}
	k.Env = r.env
	k.lines = bufio.NewScanner(must.Value(k.StderrPipe())(t))
	must.Succeed(t, k.Start())
	return k
}

// list writes the list the way the kubelet writes a ConfigMap: into a new directory, to which a link is then moved.
func (r *rig) list(t *testing.T, references ...string) {
	t.Helper()
	dir := filepath.Join(r.dir, "list")
	data := must.Value(os.MkdirTemp(r.dir, "list-"))(t)
	must.Succeed(t, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(data, "references.txt"), []byte(strings.Join(references, "\n")), 0o644),
		os.Symlink(data, dir+"/..data_tmp"), os.Rename(dir+"/..data_tmp", dir+"/..data"))
	if err := os.Symlink("..data/references.txt", dir+"/references.txt"); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

// await returns the next line with the given event.
func (k *keeper) await(t *testing.T, event string) logLine {
	t.Helper()
	for k.lines.Scan() {
		var line logLine
		must.Succeed(t, json.Unmarshal(k.lines.Bytes(), &line))
		t.Log(k.lines.Text())
		if line.Event == event {
			return line
		}
	}
	t.Fatalf("keep has ended, want a line with %s: %v", event, k.Wait())
	return logLine{}
}

// end ends the process with SIGTERM, and returns its exit code.
func (k *keeper) end(t *testing.T) int {
	t.Helper()
	must.Succeed(t, k.Process.Signal(syscall.SIGTERM))
	k.await(t, "keep.stopped")
	k.Wait() // the error is just the exit code
	return k.ProcessState.ExitCode()
}

// The listed bitstreams are pulled into the store. They are also pulled after the list or the credentials have changed,
// and after a tag has moved. When the registry can't be reached, the store keeps what it has.
func TestKeep(t *testing.T) {
	const vadd = "registry.example.com/fpga/vadd:1.0"
	r := newRig(t)
	r.succeed(t, "push CA GBS NAME")
	aocx := r.write(t, "vadd.aocx", string(bits.AOCX(bits.Hash, "pac_a10", bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), make([]byte, 1<<20)))))
	r.succeed(t, "push CA "+aocx+" "+vadd)

	k := r.keep(t, "--min-free 0 --http-address 127.0.0.1:0", name)
	address := k.await(t, "http.served").Address
	pulled := k.await(t, "bitstream.installed")
	compare.Equal(t, "path", gbsPath, pulled.Path)
	compare.Equal(t, "content", string(must.Value(os.ReadFile(r.gbs))(t)), string(must.Value(os.ReadFile(filepath.Join(r.store, gbsPath)))(t)))
	page := must.Value(http.Get("http://" + address + "/metrics"))(t)
	text := string(must.Value(io.ReadAll(page.Body))(t))
	page.Body.Close()
	compare.Contains(t, "metrics", fmt.Sprintf("accelerator_bitstream_present{reference=%q} 1\n", name), text)
	compare.Contains(t, "metrics", "accelerator_bitstream_pulls_total{result=\"installed\"} 1\n", text)

	r.login(t, "user:wrong")
	r.list(t, name, vadd)
	compare.Contains(t, "wrong password", "401 Unauthorized", k.await(t, "bitstream.failed").Error)
	r.list(t, name)
	k.await(t, "keep.listed")
	r.login(t, "user:secret")
	r.list(t, vadd, name)
	compare.Equal(t, "path of the other one", aocxPath, k.await(t, "bitstream.installed").Path)
	r.list(t, "vadd")
	k.await(t, "keep.refused")
	compare.Equal(t, "exit code", 0, k.end(t))

	// The tag has moved. A reference with a digest still names the old content, so the list can't have both.
	other := r.write(t, "other.gbs", string(bits.GBS(bits.Metadata(bits.Interface, bits.AFU), []byte("other"))))
	r.succeed(t, "push --quiet CA "+other+" NAME")
	k = r.keep(t, "--min-free 0 --once", name, vadd)
	compare.Equal(t, "path of the moved tag", gbsPath, k.await(t, "bitstream.installed").Path)
	k.await(t, "keep.stopped")
	must.Succeed(t, k.Wait())
	compare.Equal(t, "size of the other one", must.Value(os.Stat(other))(t).Size(), r.files(t)[gbsPath])
	pinned := "registry.example.com/fpga/nlb@" + pulled.Digest
	k = r.keep(t, "--min-free 0 --once", name, pinned)
	compare.Contains(t, "error", pinned+": names the same bitstream "+gbsPath+" as "+name, k.await(t, "bitstream.failed").Error)
	k.await(t, "keep.stopped")
	must.Succeed(t, k.Wait())
	k = r.keep(t, "--min-free 0 --once", pinned)
	k.await(t, "bitstream.installed")
	k.await(t, "keep.stopped")
	must.Succeed(t, k.Wait())
	compare.Equal(t, "size of the first one", must.Value(os.Stat(r.gbs))(t).Size(), r.files(t)[gbsPath])

	// The registry can't be reached.
	r.env = append(r.env, "HTTPS_PROXY=http://127.0.0.1:1")
	k = r.keep(t, "--min-free 0 --once", pinned)
	compare.Equal(t, "digest", pulled.Digest, k.await(t, "bitstream.present").Digest)
	k.await(t, "keep.stopped")
	must.Succeed(t, k.Wait())
}

// If pulling a bitstream would fill up the disk, its reference fails, and nothing is downloaded. Once there is enough
// space, the bitstream is installed.
func TestKeepFullDisk(t *testing.T) {
	r := newRig(t)
	mount(t, r.store, "4m")
	r.succeed(t, "push CA GBS NAME")
	k := r.keep(t, "", name)
	compare.Contains(t, "error", "found 4 MiB of free space, want 16 MiB: 20 % of the file system, and twice each bitstream that is pulled", k.await(t, "bitstream.failed").Error)
	files := r.files(t)
	delete(files, ".keep.json")
	delete(files, ".keep.lock")
	compare.Empty(t, "files", files)
	must.Succeed(t, syscall.Mount("tmpfs", r.store, "tmpfs", syscall.MS_REMOUNT, "size=30m"))
	compare.Equal(t, "path", gbsPath, k.await(t, "bitstream.installed").Path)
	compare.Equal(t, "exit code", 0, k.end(t))
}
