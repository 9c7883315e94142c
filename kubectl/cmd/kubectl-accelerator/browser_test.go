package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"b-com.com/accelerator-device-plugin/docs"
	"b-com.com/accelerator-device-plugin/kubectl/test/browser"
	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

var pageAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/[A-Z2-7]{26}/`)

// startUI runs the command ui, and returns the address of its page.
func startUI(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	t.Setenv("KUBECONFIG", kubeconfig)
	out, in := io.Pipe()
	var errs strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	t.Cleanup(func() { cancel(); done.Wait() })
	done.Go(func() {
		defer in.Close()
		if code := run(ctx, append([]string{"ui"}, args...), in, &errs); code != 0 {
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

// openPage opens the page of ui in a window of this size.
func openPage(t *testing.T, address string, width, height int64, scheme string) *browser.Page {
	t.Helper()
	return browser.Open(t, address, width, height, scheme, `typeof follow === "function" && [...document.styleSheets].every((s) => s.cssRules.length > 0)`)
}

// screenshot writes a picture of the page for the documentation.
func screenshot(b *browser.Page, name string) {
	if *golden.Update {
		b.Screenshot("../../../docs/" + name)
	}
}

const live = `document.getElementById("live").innerText`
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
	Sensors      []any          `json:"sensors"`
}

// answer returns the answer of a node. The devices in faulty need attention.
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
	text := must.Value(json.Marshal(map[string]any{"version": "0.3.0", "api": "devicePlugin", "devices": cards, "cards": history, "verdict": map[string]any{"faulty": faulty}}))(t)
	return string(text)
}

// sensors contains the summary of a card's sensors, and one more sensor.
var sensors = []any{
	map[string]any{"chip": "", "sensor": "die", "kind": "temperature", "value": 43.54},
	map[string]any{"chip": "", "sensor": "hottest", "kind": "temperature", "value": 51.5, "max": 75, "of": "Columbiaville Die Temperature"},
	map[string]any{"chip": "", "sensor": "board", "kind": "power", "value": 50.909}, nil,
	map[string]any{"chip": "bmc", "sensor": "die", "kind": "temperature", "value": 99},
}

// cards returns the cards of a node: half of them are in use.
func cards(node, n int) []card {
	all := make([]card, n)
	for i := range all {
		id := fmt.Sprintf("%02x:00.0", 0x3b+0x23*i)
		all[i] = card{
			ID: id, Health: "healthy", Reasons: []string{}, Holder: []string{}, HolderKnown: true, Resource: "b-com.com/accelerator", Family: "dfl", PCIID: "8086:09c4",
			NUMANode: i % 2, AFUID: "d8424dc4a4a3c413f89e433683f9040b", DeviceNodes: []string{fmt.Sprintf("/dev/dfl-port.%d", i)}, Sensors: sensors,
		}
		if (node*7+i*3)%5 < 3 {
			all[i].Holder, all[i].Held = []string{fmt.Sprintf("vision/encoder-%d/main", node*n+i)}, true
		}
	}
	return all
}

// fleetOf returns a cluster of nodes with cards. Some cards need attention.
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

// sentence returns what docs/health.md says about a reason, as the page shows it.
func sentence(reason string) string {
	meaning := docs.Explain(reason)[0].Meaning
	if !strings.HasSuffix(meaning, ".") {
		meaning += "."
	}
	return strings.ToUpper(meaning[:1]) + meaning[1:]
}

const details = `document.getElementById("details").innerText`

// At first sight, the page shows how many cards need attention, which ones, and why. The details of a card say what to
// do.
func TestBrowserFirstLook(t *testing.T) {
	c, _ := fleetOf(t, 32, 4)
	b := openPage(t, startUI(t, c.Kubeconfig(t), "--context", "sim"), 1280, 800, "light")
	b.Await(live, "live")
	b.Await(`[...document.querySelectorAll("#attention .item")].map((e) => [...e.children].slice(1).map((s) => s.innerText).join("|")).join(";")`,
		strings.Join([]string{
			"worker-005 5e:00.0|port-ap6|vision/encoder-17/main|5+ changes in 7 days|" + sentence("port-ap6"),
			"worker-022 3b:00.0|fme-fatal=thermal|vision/encoder-88/main|5+ changes in 7 days|" + sentence("fme-fatal=thermal"),
			"worker-014 a4:00.0|missing||5+ changes in 7 days|" + sentence("missing"),
			"worker-027|the daemon could not be asked||",
			"worker-010 81:00.0|power-throttled=1||5+ changes in 7 days|" + sentence("power-throttled=1"),
		}, ";"))
	b.Is("the numbers", `document.getElementById("summary").innerText.replace(/\s+/g, " ")`,
		"× 2 unhealthy ? 1 missing ! 1 degraded – 1 cordoned · 1 node does not answer 71 healthy, in use 48 healthy, free")
	b.Do(chromedp.Click("#attention button"))
	b.Await(details, "Why, and what to do")
	for _, want := range []string{
		"worker-005 5e:00.0", "port-ap6", sentence("port-ap6"), "Read from: errors/errors bit 50", "the port: /sys/bus/pci/devices/0000:3b:00.0/", "Clearing a sticky error", "vision/encoder-17/main",
		"31 changes of health, 0 removals.", "List that the kubelet received", "5e:00.0\tUnhealthy", "3b:00.0\tHealthy", "0.3.0, devicePlugin", "fpga-system/fpga-worker-005",
		"FPGA 43.5 °C, hottest part 51.5 °C of 75", "50.9 W", "Sensors read",
		"kubectl accelerator --context sim logs worker-005 --device 5e:00.0", " can-pull worker-005 5e:00.0",
	} {
		if got := b.Text(details); !strings.Contains(got, want) {
			t.Errorf("found no %q in the details:\n%s", want, got)
		}
	}
	screenshot(b, "kubectl-ui-card.png")
	b.Do(chromedp.Click(`#attention li:nth-child(4) button`))
	b.Await(details, "The node does not answer: the daemon could not be asked")
	if got := b.Text(details); !strings.Contains(got, "kubectl --context sim --namespace fpga-system describe pod fpga-worker-027") || strings.Contains(got, "History") {
		t.Errorf("found no command for the node, or the history of a card:\n%s", got)
	}
	b.Do(chromedp.Click(`#summary [data-kind="missing"]`))
	b.Is("nodes with a missing card", `document.querySelectorAll(".node:not([hidden])").length`, "1")
	b.Is("missing cards", `document.querySelectorAll("#attention li").length`, "1")
}

// A change on one of 1000 nodes appears on the page and in the details. BenchmarkUI limits the time.
func TestBrowserManyNodes(t *testing.T) {
	c, nodes := fleetOf(t, 1000, 8)
	b := openPage(t, startUI(t, c.Kubeconfig(t)), 1280, 800, "dark")
	b.Await(`document.querySelectorAll("#nodes .cell").length`, "7825") // 25 nodes do not answer
	b.Await(live, "live")
	screenshot(b, "kubectl-ui-many.png")
	b.Is("cards of worker-500", `document.querySelectorAll("#nodes .node:nth-child(500) .cell.unhealthy").length`, "0")
	b.Do(chromedp.Click("#nodes .node:nth-child(500) .cell:nth-child(7)"))
	b.Await(details, "worker-500")
	cs := cards(499, 8)
	cs[6].Health, cs[6].Reasons = "unhealthy", []string{"fme-fatal=thermal"}
	b.Do(chromedp.Evaluate[chromedp.Void](`window.row = document.querySelector("#attention button")`))
	began := time.Now()
	nodes[499].Set(answer(t, cs, cs[6].ID))
	b.Await(`document.querySelector("#nodes .node:nth-child(500)").innerText`, "×")
	b.Await(details, "fme-fatal=thermal")
	b.Is("a row that is the same remains, so that a click on it is not lost", `row.isConnected`, "true")
	t.Logf("a change was on the page after %s", time.Since(began))
	b.Do(chromedp.SendKeys("#search", "worker-500 thermal"))
	b.Await(`document.getElementById("nodes-title").innerText`, "1 of 1000")
}

// A card of a real daemon breaks while the page is open, and is repaired. A node whose daemon ends keeps its cards, and
// shows why.
func TestBrowserDaemon(t *testing.T) {
	n := startNode(t, "two-ports")
	run, pod := n.run, simcluster.NewPod("worker-1", "fpga-system", "fpga", "devicePlugin", nil)
	pod.Run = run
	c := simcluster.Start(t, pod)
	b := openPage(t, startUI(t, c.Kubeconfig(t)), 1000, 700, "light")
	b.Await(attention, "Nothing.")
	b.Is("cards, whose holders the daemon does not know", `document.querySelectorAll("#nodes .cell.unsure").length`, "2")
	b.Await(`document.getElementById("summary").innerText.replace(/\s+/g, " ")`, "2 healthy, use not known 0 healthy, free")
	n.simulate("break", "3b:00.0-p1")
	b.Await(attention, "port-ap6")
	b.Is("the broken card", `document.querySelector("#nodes .cell.unhealthy").getAttribute("aria-label")`, "worker-1, 3b:00.0-p1, unhealthy, port-ap6, holder not known")
	n.simulate("heal", "3b:00.0-p1")
	b.Await(attention, "Nothing.")
	b.Do(chromedp.Click(`#nodes .cell[data-id="3b:00.0-p1"]`))
	b.Await(details, "In the last 7 days: 2 changes.")
	n.daemon.Process.Kill()
	b.Await(attention, "worker-1")
	b.Is("the cards that are not known", `document.querySelectorAll("#nodes .cell.unknown").length`, "2")
}

// Everything can be done with the keyboard. The focus is visible and does not get lost.
func TestBrowserKeyboard(t *testing.T) {
	c, nodes := fleetOf(t, 12, 4)
	b := openPage(t, startUI(t, c.Kubeconfig(t)), 1280, 800, "light")
	b.Await(live, "live")
	b.Await(attention, sentence("power-throttled=1")) // of worker-010
	b.Await(attention, sentence("port-ap6"))
	focus := func(when, want string) {
		t.Helper()
		b.Is("focus "+when, `(document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent).trim()`, want)
	}
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			b.Do(chromedp.KeyEvent(key))
		}
	}
	first := "worker-005, 5e:00.0, unhealthy, port-ap6, in use by vision/encoder-17/main, " + sentence("port-ap6")
	press(kb.Tab)
	focus("at first", "Skip to what needs attention")
	press(kb.Enter, kb.Tab)
	focus("after the skip", first)
	b.Is("outline", `getComputedStyle(document.activeElement).outlineStyle`, "solid")
	press(kb.Enter)
	b.Await(`document.activeElement.textContent`, "worker-005 5e:00.0")
	press(kb.Escape)
	focus("after Escape", first)
	press("/")
	focus("after /", "Search for a node, card, reason or pod")
	press(kb.Tab)
	focus("in the nodes", "worker-001, 3b:00.0, healthy, in use by vision/encoder-0/main")
	press(kb.ArrowRight, kb.ArrowRight)
	focus("after two steps to the right", "worker-001, 81:00.0, healthy, in use by vision/encoder-2/main")
	press(kb.ArrowDown)
	down := b.Text(`document.activeElement.closest(".node").querySelector(".name").textContent`)
	if down == "worker-001" || b.Text(`document.activeElement.dataset.id`) != "81:00.0" {
		t.Errorf("focus after a step down: %s, want the same card of the node below", b.Text(`document.activeElement.title`))
	}
	press(kb.ArrowUp)
	focus("after a step up", "worker-001, 81:00.0, healthy, in use by vision/encoder-2/main")
	press(kb.End)
	focus("at the end", "worker-012, a4:00.0, healthy, in use by vision/encoder-47/main")
	cs := cards(11, 4)
	cs[3].Health, cs[3].Reasons = "unhealthy", []string{"port-ap6"}
	nodes[11].Set(answer(t, cs, "a4:00.0")) // the node is drawn again
	b.Await(`document.activeElement.title`, "worker-012, a4:00.0, unhealthy, port-ap6")
	const joins = `update({ nodes: [{ ...nodes.values().next().value.node, key: "joined", node: "joined" }], gone: [], kubectl, cluster: "", trouble: "" })`
	b.Do(chromedp.Evaluate[chromedp.Void](joins)) // the nodes are sorted again
	b.Is("the first node", `document.querySelector("#nodes .name").textContent`, "joined")
	focus("after a node has joined", "worker-012, a4:00.0, unhealthy, port-ap6, in use by vision/encoder-47/main")
	b.Do(chromedp.Evaluate[chromedp.Void](`update({ nodes: [], gone: ["joined"], kubectl, cluster: "", trouble: "" })`))
	press(kb.Home, kb.Enter)
	b.Await(details, "worker-001")
	press(kb.Tab)
	focus("in the details", "Close the details")
	press(kb.Enter)
	focus("after closing", "worker-001, 3b:00.0, healthy, in use by vision/encoder-0/main")
	b.Is("cells that Tab reaches", `document.querySelectorAll('.cell[tabindex="0"]').length`, "1")
}

// Texts and symbols can be read in light and dark (WCAG AA), and the two differ.
func TestBrowserContrast(t *testing.T) {
	c, _ := fleetOf(t, 32, 4)
	backs := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		b := openPage(t, startUI(t, c.Kubeconfig(t)), 1280, 800, scheme)
		b.Await(attention, "worker-010")
		b.Do(chromedp.Click("#attention button"))
		b.Await(details, "Why, and what to do")
		b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("#details details").forEach((d) => { d.open = true })`))
		backs[b.Text(`getComputedStyle(document.body).backgroundColor`)] = true
		b.Is(scheme+": texts with a contrast below 4.5", contrast, "")
	}
	if len(backs) != 2 {
		t.Errorf("found backgrounds %v, want two", backs)
	}
}

// contrast is an expression for the elements whose text has too little contrast. Disabled tiles are exempt.
const contrast = `(() => {
	const rgb = (text) => text.match(/[\d.]+/g).map(Number);
	const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const found = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest(":disabled, .skip")) continue;
		let back = e;
		while (back && rgb(getComputedStyle(back).backgroundColor)[3] === 0) back = back.parentElement;
		const [a, b] = [rgb(getComputedStyle(e).color), rgb(getComputedStyle(back ?? document.body).backgroundColor)].map((c) => light(c.slice(0, 3))).sort((a, b) => b - a);
		if ((a + 0.05) / (b + 0.05) < 4.5) found.add(e.tagName + "." + e.className + " in " + e.parentElement.className + ": " + e.textContent.slice(0, 20) + " " + ((a + 0.05) / (b + 0.05)).toFixed(1));
	}
	return [...found].join("; ");
})()`

// On a telephone nothing is wider than the screen, and the details cover the page.
func TestBrowserNarrow(t *testing.T) {
	c, _ := fleetOf(t, 32, 4)
	b := openPage(t, startUI(t, c.Kubeconfig(t)), 390, 844, "light")
	b.Await(live, "live")
	b.Await(attention, "worker-010")
	const wide = `[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest(".skip") && (e.getBoundingClientRect().right > 390.5 || e.getBoundingClientRect().left < -0.5)).map((e) => e.tagName + "." + e.className).join(" ")`
	b.Is("elements outside of the screen", wide, "")
	b.Do(chromedp.Click("#attention button"))
	b.Await(details, "Why, and what to do")
	b.Is("elements outside of the screen", wide, "")
	b.Is("the width of the details", `document.getElementById("details").getBoundingClientRect().width`, "390")
	b.Do(chromedp.Click(".close"))
	b.Is("details after closing", `document.getElementById("details").checkVisibility()`, "false")
}

// What a node answers is shown as text.
func TestBrowserHostileNode(t *testing.T) {
	const evil = `<img src=x onerror=alert(1)><script src=http://evil.example/x.js></script>`
	cs := cards(0, 2)
	cs[0].ID, cs[0].Health, cs[0].Reasons, cs[0].Holder, cs[0].Resource, cs[0].AFUID = evil, "unhealthy", []string{evil, "x"}, []string{evil}, evil, evil
	cs[1].ID, cs[1].Health, cs[1].Reasons = "3b:00.0; rm -rf ~", evil, []string{evil}
	c := simcluster.Start(t, simcluster.NewPod("worker-1", "lab", "fpga", "dra", simcluster.NewNode(answer(t, cs, evil)).Run),
		simcluster.NewPod("worker-2", "lab", "fpga", "dra", simcluster.NewNode(`{"version":"v1","verdict":7,"devices":[{"id":"constructor","health":"constructor","reasons":{"a":1},"family":{"toString":1},"deviceNodes":[{"__proto__":1}]}],"cards":[{"card":"constructor","healthChanges":{"valueOf":1},"recent":[{"time":{"toString":1}}]}]}`).Run))
	b := openPage(t, startUI(t, c.Kubeconfig(t)), 1280, 800, "light")
	b.Await(attention, evil)
	b.Do(chromedp.Click("#attention button"))
	b.Await(details, "docs/health.md does not know this reason.")
	for _, node := range []string{"1", "2"} {
		for cell := range 2 {
			if node == "2" && cell == 1 {
				break
			}
			b.Do(chromedp.Click(fmt.Sprintf("#nodes .node:nth-child(%s) .cell:nth-child(%d)", node, cell+1)))
			b.Await(details, "History")
			b.Is("symbol", `document.querySelector("#details .mark").textContent`, "×")
		}
	}
	b.Is("elements that the page does not have", `document.querySelectorAll("img, iframe, object, body script, [onerror]").length`, "0")
	if got := b.Text(details); strings.Contains(got, "rm -rf ~ --why") {
		t.Errorf("found a command with the text of a node:\n%s", got)
	}
}
