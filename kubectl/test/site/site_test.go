// Package site tests the site of the documentation, dist/site, in Chromium. The tests are in this module because it
// already depends on the client for Chromium.
package site

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"b-com.com/accelerator-device-plugin/kubectl/test/browser"
	"b-com.com/accelerator-device-plugin/test/must"
)

var site = os.DirFS("../../../dist/site")

// loaded is true when the page reacts to clicks and shows all pictures and diagrams.
const loaded = `document.getElementById("app")?.__vue_app__ !== undefined && [...document.images].every((i) => i.complete) &&
	document.querySelectorAll("pre.diagram").length === 0`

// wide is an expression for the elements that extend beyond the right edge of the screen and cannot be scrolled to.
const wide = `[...document.querySelectorAll("body *")].filter((e) => {
	if (!e.checkVisibility() || e.getBoundingClientRect().right <= innerWidth + 0.5) return false;
	for (let a = e; a; a = a.parentElement) if (/auto|scroll/.test(getComputedStyle(a).overflowX)) return false;
	return true;
}).map((e) => e.tagName + "." + e.className).join(" ")`

func TestBrowserSite(t *testing.T) {
	for _, test := range []struct {
		name          string
		width, height int64
		colours       string
	}{
		{"wide", 1440, 900, "light"},
		{"narrow", 390, 844, "dark"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.FileServerFS(site))
			t.Cleanup(server.Close)
			b := browser.Open(t, server.URL+"/", test.width, test.height, test.colours, loaded)
			b.Is("dark", `document.documentElement.classList.contains("dark")`, map[string]string{"light": "false", "dark": "true"}[test.colours])
			follow(b, test.name == "narrow")
			search(b)
			readAll(t, b, server.URL)
		})
	}
}

// follow opens a page from the navigation, which is behind a button on a narrow screen.
func follow(b *browser.Page, narrow bool) {
	if narrow {
		b.Is("the navigation", `document.querySelector(".VPSidebar").getBoundingClientRect().right <= 0`, "true")
		b.Do(chromedp.Click(".VPLocalNav .menu"))
		b.Await(`document.querySelector(".VPSidebar").getBoundingClientRect().left === 0`, "true")
	}
	b.Is("titles in the navigation that are cut", `[...document.querySelectorAll(".VPSidebar a")].filter((a) =>
		a.getBoundingClientRect().right > document.querySelector(".VPSidebar").getBoundingClientRect().right).map((a) => a.innerText).join(" ")`, "")
	b.Do(chromedp.Click(`.VPSidebar a[href="/CONTRIBUTING.html"]`))
	b.Await(`document.querySelector("h1").innerText`, "Contributing")
	b.Await(`document.querySelector(".VPBackdrop") === null`, "true")
}

// search finds the page about kubectl by a word in it.
func search(b *browser.Page) {
	b.Do(chromedp.Click(".VPNavBarSearch button"), chromedp.WaitVisible("#localsearch-input"), chromedp.SendKeys("#localsearch-input", "krew"))
	b.Await(`document.querySelector(".VPLocalSearchBox .result")?.innerText.replace(/\s+/g, " ")`, "with kubectl")
	b.Do(chromedp.Click(".VPLocalSearchBox .result"))
	b.Await(`document.querySelector("h1").innerText`, "with kubectl")
}

// readAll opens each page, and follows its links.
func readAll(t *testing.T, b *browser.Page, address string) {
	links := map[string]string{} // a page that has the link
	ids := map[string]string{}   // by address of the page
	diagrams := 0
	must.Succeed(t, fs.WalkDir(site, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" || path == "404.html" {
			return err
		}
		page := address + "/" + strings.TrimSuffix(path, "index.html")
		b.Do(chromedp.Navigate(page))
		b.Await(loaded, "true")
		b.Is(path+": elements outside of the screen", wide, "")
		b.Is(path+": pictures that are missing", `[...document.images].filter((i) => !i.naturalWidth).map((i) => i.src).join(" ")`, "")
		b.Is(path+": rows outside of a table", `[...document.querySelectorAll("main p")].map((e) => e.innerText).filter((t) => t.startsWith("|")).join(" ")`, "")
		b.Is(path+": headings of the page", `document.querySelectorAll("h1").length`, "1")
		diagrams += len(b.Text(`"|".repeat(document.querySelectorAll(".diagram > svg").length)`))
		ids[page] = b.Text(`[...document.querySelectorAll("[id]")].map((e) => e.id).join("\n")`)
		for link := range strings.Lines(b.Text(`[...document.links].map((a) => a.href).join("\n")`)) {
			links[strings.TrimSpace(link)] = path
		}
		return nil
	}))
	found := 0
	for link, page := range links {
		if !strings.HasPrefix(link, address) {
			continue
		}
		found++
		file, id, _ := strings.Cut(link, "#")
		file = strings.TrimSuffix(file, "index.html")
		if response, err := http.Get(file); err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s: link to %s: found no such file, error %v", page, link, err)
		} else if id != "" && !strings.Contains("\n"+ids[file]+"\n", "\n"+id+"\n") {
			t.Errorf("%s: link to %s: found no such heading", page, link)
		}
	}
	if found < 300 || diagrams < 10 {
		t.Errorf("found %d links, %d diagrams, want at least 300, 10", found, diagrams)
	}
}
