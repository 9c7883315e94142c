// Package browser opens pages in Chromium for tests.
//
// A [Page] must not be used by more than one goroutine. Its methods block until Chromium responds.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"b-com.com/accelerator-device-plugin/test/patient"
)

// Page is a page in Chromium. When the test ends, it fails if the page has sent a request to another address, printed
// to the console or thrown an exception.
type Page struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	foreign []string // requests to other addresses
	console []string
}

// Open opens an address in a window of the given size, with the given colour scheme (light or dark), and waits until
// the JavaScript expression ready is true.
func Open(t *testing.T, address string, width, height int64, scheme, ready string) *Page {
	t.Helper()
	path := os.Getenv("ACCELERATOR_CHROMIUM")
	if path == "" {
		t.Skip("NOT RUN: ACCELERATOR_CHROMIUM: found none, want the path of Chromium: make test-browser, test-site")
	}
	b := &Page{t: t}
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true), chromedp.Flag("hide-scrollbars", true))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	ctx, closePage := chromedp.NewContext(ctx)
	t.Cleanup(func() { closePage(); end(); cancel() })
	b.ctx = ctx
	home, _ := url.Parse(address)
	b.Do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		return chromedp.Listen(ctx, func(event any) {
			b.mu.Lock()
			defer b.mu.Unlock()
			switch e := event.(type) {
			case *network.EventRequestWillBeSent:
				if u, err := url.Parse(e.Request.URL); err != nil || u.Host != home.Host && u.Scheme != "data" {
					b.foreign = append(b.foreign, e.Request.URL)
				}
			case *runtime.EventConsoleAPICalled, *runtime.EventExceptionThrown:
				text, _ := json.Marshal(e)
				b.console = append(b.console, string(text))
			}
		})
	}))
	b.Do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
	// Chromium cancels requests when one of the machine's network interfaces appears or disappears. If the page lacks a
	// file because of that, open the page again.
	patient.Await(t, "the page", func() error {
		b.Do(chromedp.Navigate(address))
		if got := b.Text(ready); got != "true" {
			return fmt.Errorf("%s: found %s, want true", ready, got)
		}
		return nil
	})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.foreign)+len(b.console) > 0 {
			t.Errorf("found requests to %q and errors %q, want none", b.foreign, b.console)
		}
	})
	return b
}

// Do performs steps on the page.
func (b *Page) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// Text returns an expression's value as text.
func (b *Page) Text(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// Await waits until an expression's value contains want.
func (b *Page) Await(expression, want string) {
	b.t.Helper()
	patient.Await(b.t, expression, func() error {
		if got := b.Text(expression); !strings.Contains(got, want) {
			return fmt.Errorf("found %q, want %q", got, want)
		}
		return nil
	})
}

// Is compares an expression's value with want.
func (b *Page) Is(what, expression, want string) {
	b.t.Helper()
	if got := b.Text(expression); got != want {
		b.t.Errorf("%s: found %q, want %q", what, got, want)
	}
}

// Screenshot writes a screenshot of the page to a file.
func (b *Page) Screenshot(path string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, picture, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}
