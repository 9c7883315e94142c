package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/patient"
)

var pageAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/[A-Z2-7]{26}/`)

// startUI runs the command ui, and returns the address of its page.
func startUI(t *testing.T, c *simcluster.Cluster, args ...string) string {
	t.Helper()
	out, in := io.Pipe()
	var errs strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	t.Cleanup(func() { cancel(); done.Wait() })
	kubeconfig := c.Kubeconfig(t)
	done.Go(func() {
		defer in.Close()
		if code := run(ctx, append([]string{"--kubeconfig", kubeconfig, "ui"}, args...), in, &errs); code != 0 {
			t.Errorf("ui: exit code %d: %s", code, errs.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address := pageAddress.FindString(line)
	if err != nil || address == "" {
		t.Fatalf("ui: error %v, printed %q, want an address", err, line)
	}
	return address
}

// browser is a page in Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	foreign []string // requests to other addresses
	console []string
}

// openPage opens an address in a window of this size.
func openPage(t *testing.T, address string, width, height int64, scheme string) *browser {
	t.Helper()
	path := os.Getenv("ACCELERATOR_CHROMIUM")
	if path == "" {
		t.Skip("NOT RUN: ACCELERATOR_CHROMIUM: found none, want the path of Chromium: make test-browser")
	}
	b := &browser{t: t}
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true), chromedp.Flag("hide-scrollbars", true))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	ctx, closePage := chromedp.NewContext(ctx)
	t.Cleanup(func() { closePage(); end(); cancel() })
	b.ctx = ctx
	home, _ := url.Parse(address)
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		return chromedp.Listen(ctx, func(event any) {
			b.mu.Lock()
			defer b.mu.Unlock()
			switch e := event.(type) {
			case *network.EventRequestWillBeSent:
				if u, err := url.Parse(e.Request.URL); err != nil || u.Host != home.Host {
					b.foreign = append(b.foreign, e.Request.URL)
				}
			case *runtime.EventConsoleAPICalled, *runtime.EventExceptionThrown:
				text, _ := json.Marshal(e)
				b.console = append(b.console, string(text))
			}
		})
	}))
	b.do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}), chromedp.Navigate(address))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.foreign)+len(b.console) > 0 {
			t.Errorf("found requests to %q and errors %q, want none", b.foreign, b.console)
		}
	})
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// text returns the value of an expression, as text.
func (b *browser) text(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// await waits until the value of an expression contains a text.
func (b *browser) await(expression, want string) {
	b.t.Helper()
	patient.Await(b.t, expression, func() error {
		if got := b.text(expression); !strings.Contains(got, want) {
			return fmt.Errorf("found %q, want %q", got, want)
		}
		return nil
	})
}

// screenshot writes a picture of the page for the documentation.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	if !*update {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join("../../../docs", name), picture, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

const attention = `document.getElementById("attention").innerText`

// card is a device of a simulated answer.
type card struct {
	ID           string         `json:"id"`
	Health       string         `json:"health"`
	Reasons      []string       `json:"reasons"`
	Holder       []string       `json:"holder"`
	HolderKnown  bool           `json:"holderKnown"`
	Held         bool           `json:"held"`
	Resource     string         `json:"resource"`
	Family       string         `json:"family"`
	PCIID        string         `json:"pciId"`
	NUMANode     int            `json:"numaNode"`
	AFUID        string         `json:"afuId"`
	DeviceNodes  []string       `json:"deviceNodes"`
	Cordon       map[string]any `json:"cordon"`
	MissingSince string         `json:"missingSince,omitempty"`
}

// answer returns the answer of a node, in which these devices need attention.
func answer(t *testing.T, cards []card, faulty ...string) string {
	t.Helper()
	var history []any
	for _, c := range cards {
		h := map[string]any{"card": c.ID, "healthChanges": 0, "removals": 0, "recent": []any{}}
		if c.Health != "healthy" && c.Cordon == nil {
			var recent []any
			for day, to := range []string{"unhealthy", "healthy", "unhealthy", "healthy", "unhealthy"} {
				turn := map[string]any{"time": time.Now().AddDate(0, 0, day-5).Add(-time.Duration(day) * 97 * time.Minute), "device": c.ID, "from": "healthy", "to": to}
				if to == "unhealthy" {
					turn["from"], turn["reason"] = "healthy", c.Reasons[0]
				} else {
					turn["from"] = "unhealthy"
				}
				recent = append(recent, turn)
			}
			h["healthChanges"], h["recent"] = 31, recent
		}
		history = append(history, h)
	}
	text, err := json.Marshal(map[string]any{"version": "0.3.0", "api": "devicePlugin", "devices": cards, "cards": history, "verdict": map[string]any{"faulty": faulty}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cards returns the cards of a node: half of them are in use.
func cards(node, n int) []card {
	all := make([]card, n)
	for i := range all {
		id := fmt.Sprintf("%02x:00.0", 0x3b+0x23*i)
		all[i] = card{
			ID: id, Health: "healthy", Reasons: []string{}, Holder: []string{}, HolderKnown: true, Resource: "b-com.com/accelerator", Family: "dfl", PCIID: "8086:09c4",
			NUMANode: i % 2, AFUID: "d8424dc4a4a3c413f89e433683f9040b", DeviceNodes: []string{fmt.Sprintf("/dev/dfl-port.%d", i)},
		}
		if (node*7+i*3)%5 < 3 {
			all[i].Holder, all[i].Held = []string{fmt.Sprintf("vision/encoder-%d/main", node*n+i)}, true
		}
	}
	return all
}

// fleetOf returns a cluster of nodes with cards, of which some need attention.
func fleetOf(t *testing.T, nodes, perNode int) (*simcluster.Cluster, []*simcluster.Node) {
	c := simcluster.Start(t)
	all := make([]*simcluster.Node, nodes)
	for i := range all {
		cs := cards(i, perNode)
		var faulty []string
		bad := func(j int, health, reason string) {
			cs[j].Health, cs[j].Reasons = health, []string{reason}
			if health == "unhealthy" {
				faulty = append(faulty, cs[j].ID)
			}
		}
		switch i % 40 {
		case 4:
			bad(1, "unhealthy", "port-ap6")
		case 9:
			bad(2, "degraded", "power-throttled=1")
		case 13:
			bad(3, "unhealthy", "missing")
			cs[3].Resource, cs[3].MissingSince, cs[3].Holder, cs[3].DeviceNodes = "", "2026-11-20T03:12:09Z", nil, nil
			cs[3].Held = false
		case 17:
			cs[0].Health, cs[0].Reasons, cs[0].Cordon = "unhealthy", []string{"cordoned"}, map[string]any{"by": "jane", "why": "replace the fan"}
		case 21:
			bad(0, "unhealthy", "fme-fatal=thermal")
			cs[0].Holder, cs[0].Held = []string{"vision/encoder-88/main"}, true
		}
		all[i] = simcluster.NewNode(answer(t, cs, faulty...))
		run := all[i].Run
		if i%40 == 26 {
			run = func(_ context.Context, _ []string, _, stderr io.Writer) int {
				fmt.Fprintln(stderr, "accelerator-device-plugin: the daemon could not be asked")
				return 1
			}
		}
		c.Set(simcluster.NewPod(fmt.Sprintf("worker-%03d", i+1), "fpga-system", "fpga", "devicePlugin", run))
	}
	return c, all
}

var _ = errors.New
var _ = kb.Tab

func TestBrowserFirstLook(t *testing.T) {
	c, _ := fleetOf(t, 32, 4)
	b := openPage(t, startUI(t, c), 1280, 860, "light")
	b.await(attention, "port-ap6")
	b.screenshot("kubectl-ui.png")
	b.do(chromedp.Click("#attention button"))
	b.await(`document.getElementById("details").innerText`, "Why, and what to do")
	b.screenshot("kubectl-ui-card.png")
}
func TestBrowserMany(t *testing.T) {
	c, _ := fleetOf(t, 1000, 8)
	b := openPage(t, startUI(t, c), 1280, 860, "dark")
	b.await(attention, "port-ap6")
	b.await(`document.getElementById("live").innerText`, "live")
	b.screenshot("kubectl-ui-many.png")
}
func TestBrowserNarrow(t *testing.T) {
	c, _ := fleetOf(t, 32, 4)
	b := openPage(t, startUI(t, c), 390, 844, "light")
	b.await(attention, "port-ap6")
	b.screenshot("kubectl-ui-narrow.png")
	b.do(chromedp.Click("#attention button"))
	b.await(`document.getElementById("details").innerText`, "Why, and what to do")
	b.screenshot("kubectl-ui-narrow-card.png")
}
