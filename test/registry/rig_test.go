package registry_test

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

var (
	bin    = flag.String("bin", "", "directory of accelerator-fpga and accelerator-fpga-registry")
	server = flag.String("registry", "", "path of the binary built from ./registry")
)

// The registry's user, with bcrypt's hash of "secret".
const htpasswd = "user:$2a$04$nAph6uAjj2tXavcEbvgqvui99VyEKiqJSNALpt1e7zcWQG7gW5CVu\n"

// rig is a registry with TLS and a password, and a user who has credentials and a store.
type rig struct {
	dir     string // directory of all files
	address string // the registry's address on the loopback
	store   string
	gbs     string // path of an 8 MiB bitstream
	proxy   *proxy
	env     []string
}

const name = "registry.example.com/fpga/nlb:1.0" // only the proxy can find it

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), store: filepath.Join(privatedirtest.Dir(t), "fpga")}
	r.gbs = r.write(t, "nlb_400.gbs", string(bits.GBS(bits.Metadata(bits.Interface, bits.AFU), bytes.Repeat([]byte("raw bits"), 1<<20))))
	// httptest's certificate is for example.com, its subdomains and the loopback.
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	certificate := certified.TLS.Certificates[0]
	key := must.Value(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey))(t)
	r.write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	r.write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})))
	r.write(t, "htpasswd", htpasswd)
	config := r.write(t, "registry.yaml", strings.ReplaceAll(`version: 0.1
storage: {filesystem: {rootdirectory: DIR/data}}
http: {addr: "127.0.0.1:0", tls: {certificate: DIR/ca.pem, key: DIR/key.pem}}
auth: {htpasswd: {realm: registry, path: DIR/htpasswd}}
log: {level: info, formatter: json}
`, "DIR", r.dir))
	cmd := exec.CommandContext(t.Context(), *server, "serve", config)
	log := must.Value(cmd.StderrPipe())(t)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(log)
	for listening := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`); r.address == "" && lines.Scan(); {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			r.address = found[1]
		}
	}
	if r.address == "" {
		t.Fatalf("the registry has ended: %v", cmd.Wait())
	}
	go io.Copy(io.Discard, log)
	r.proxy = newProxy(t, r.address)
	r.login(t, "user:secret")
	r.env = []string{"PATH=" + r.dir, "DOCKER_CONFIG=" + r.dir, "HTTPS_PROXY=http://" + r.proxy.address}
	return r
}

func (r *rig) write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(r.dir, name)
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// login writes Docker's configuration.
func (r *rig) login(t *testing.T, credentials string) {
	t.Helper()
	user, password, _ := strings.Cut(credentials, ":")
	r.write(t, "config.json", fmt.Sprintf(`{"auths": {"registry.example.com": {"username": %q, "password": %q}}}`, user, password))
}

// command returns an accelerator-fpga command. In line, words in upper case stand for paths.
func (r *rig) command(t *testing.T, line string) *exec.Cmd {
	line = strings.NewReplacer("STORE", r.store, "GBS", r.gbs, "CA", "--ca-file="+r.dir+"/ca.pem", "NAME", name, "ADDRESS", r.address, "DIR", r.dir).Replace(line)
	cmd := exec.CommandContext(t.Context(), filepath.Join(*bin, "accelerator-fpga"), strings.Fields(line)...)
	cmd.Env = r.env
	return cmd
}

// run runs a command line. It returns the output or, if the exit code isn't 0, the errors.
func (r *rig) run(t *testing.T, line string) (output string, code int) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := r.command(t, line)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	output, code = stdout.String(), cmd.ProcessState.ExitCode()
	t.Logf("accelerator-fpga %s: exit code %d, %s%s", line, code, stdout.String(), stderr.String())
	if code != 0 {
		output = stderr.String()
	}
	return strings.ReplaceAll(output, r.store, "STORE"), code
}

// succeed runs a command line, which must succeed.
func (r *rig) succeed(t *testing.T, line string) (output string) {
	t.Helper()
	output, code := r.run(t, line)
	if code != 0 {
		t.Fatalf("%s: exit code %d, want 0", line, code)
	}
	return output
}

// fail runs a command line, which must fail with the given text on stderr.
func (r *rig) fail(t *testing.T, line, want string) {
	t.Helper()
	if output, code := r.run(t, line); code != 1 || !strings.Contains(output, want) {
		t.Errorf("%s: exit code %d, %q, want 1 and %q", line, code, output, want)
	}
}

// files returns the paths of the store's files, with their sizes.
func (r *rig) files(t *testing.T) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	must.Succeed(t, filepath.WalkDir(r.store, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		name, _ := filepath.Rel(r.store, path)
		files[name] = info.Size()
		return err
	}))
	return files
}

// proxy is an HTTP proxy for a single address. It can cut connections.
type proxy struct {
	address  string
	to, from atomic.Int64 // bytes to and from the registry
	cutFrom  atomic.Int64 // when this many bytes have come from the registry, all connections are cut; 0 means never
	cutTo    atomic.Int64
	cut      atomic.Int64 // number of cuts
	onCut    func()       // may be nil
}

func newProxy(t *testing.T, registry string) *proxy {
	p := &proxy{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodConnect {
			http.Error(w, "want CONNECT", http.StatusMethodNotAllowed)
			return
		}
		up, err := net.Dial("tcp", registry)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer up.Close()
		w.WriteHeader(http.StatusOK)
		down, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer down.Close()
		done := make(chan struct{}, 2)
		go func() { p.copy(up, buffered, &p.to, &p.cutTo); done <- struct{}{} }()
		go func() { p.copy(down, up, &p.from, &p.cutFrom); done <- struct{}{} }()
		<-done
	}))
	t.Cleanup(s.Close)
	p.address = s.Listener.Addr().String()
	return p
}

// copy copies until either end is closed or the connection is cut.
func (p *proxy) copy(to io.Writer, from io.Reader, count, cut *atomic.Int64) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		total := count.Add(int64(n))
		if at := cut.Load(); at > 0 && total >= at && cut.CompareAndSwap(at, 0) {
			p.cut.Add(1)
			if p.onCut != nil {
				p.onCut()
			}
			return
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// mount mounts an in-memory file system of the given size until the test ends.
func mount(t *testing.T, dir, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	must.Succeed(t, os.Mkdir(dir, 0o755), syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size="+size))
	t.Cleanup(func() { must.Succeed(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}
