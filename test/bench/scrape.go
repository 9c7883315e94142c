package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// scrapes is the number of scrapes in five minutes with an interval of 15 s.
const scrapes = 20

// scraped measures memory after scrapes, and the processor time of a scrape. The interval is
// 3 s, shorter than in production, which leaves less time for garbage collection.
func scraped(ctx context.Context, binary string) (rows []row, err error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	d, err := launch(ctx, binary, ports, "--http-address", address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	if _, err := d.await(ctx, ports); err != nil {
		return nil, err
	}
	every := time.NewTicker(3 * time.Second)
	defer every.Stop()
	var took time.Duration
	for range scrapes {
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		before, err := d.cpu()
		if err != nil {
			return nil, err
		}
		if err := scrape(ctx, "http://"+address+"/metrics"); err != nil {
			return nil, err
		}
		after, err := d.cpu()
		if err != nil {
			return nil, err
		}
		took += after - before
	}
	memory, err := d.resident()
	return []row{
		{fmt.Sprintf("resident memory, 32 ports, after %d scrapes", scrapes), fmt.Sprintf("%.1f MiB", memory), "≤ 24 MiB"},
		{"processor time of a scrape, 32 ports", milli(took / scrapes), "≤ 15 ms (0.1 % of a core, every 15 s)"},
	}, err
}

func scrape(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status: found %s, want 200 OK", url, answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// freeAddress returns a local address on which no process listens.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
