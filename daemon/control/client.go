package control

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// answerWithin is how long a client waits for the start of a response and, except in [Client.Watch], for its end.
const answerWithin = 10 * time.Second

// mostBytes is the maximum size of a response or, for [Client.Watch], of a line. The state of a node with 10000 units
// takes up a third of that.
const mostBytes = 16 << 20

// Client sends requests to one daemon. Its errors contain the socket's path.
type Client struct {
	path string
	http http.Client
}

// Dial returns a client for the daemon whose socket is at path. It doesn't connect yet.
func Dial(path string) *Client {
	return dialWith(path, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	})
}

func dialWith(path string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Client {
	return &Client{path: path, http: http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: answerWithin,
	}}}
}

// State returns the daemon's state.
func (c *Client) State(ctx context.Context) (state State, err error) {
	err = c.ask(ctx, http.MethodGet, "/state", nil, &state)
	return state, err
}

// Watch calls f with the daemon's state, and again after each change, until ctx is done, f returns an error, or the
// daemon exits. It only returns nil if ctx is done.
func (c *Client) Watch(ctx context.Context, f func(State) error) error {
	body, err := c.do(ctx, http.MethodGet, "/watch", nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, mostBytes)
	for lines.Scan() {
		var state State
		if err := json.Unmarshal(lines.Bytes(), &state); err != nil && ctx.Err() == nil {
			return c.unreadable(err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := f(state); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return c.unreadable(errTooLong)
	default:
		return fmt.Errorf("%s: connection closed by the daemon: %w", c.path, cmp.Or(err, io.EOF))
	}
}

var errTooLong = fmt.Errorf("found more than %d bytes, want at most %[1]d", mostBytes)

func (c *Client) unreadable(err error) error {
	return fmt.Errorf("%s: answer of the daemon: %w", c.path, err)
}

// Cordon takes devices out of service for the given time or, if during is 0, until they are uncordoned. It returns
// their cordons.
func (c *Client) Cordon(ctx context.Context, devices []string, by, why string, during time.Duration) (made []cordon.Cordon, err error) {
	query := url.Values{"device": devices, "by": {by}, "why": {why}, "for": {during.String()}}
	err = c.ask(ctx, http.MethodPost, "/cordon", query, &made)
	return made, err
}

// Uncordon puts devices back into service. It returns the cordons that were removed.
func (c *Client) Uncordon(ctx context.Context, devices []string, by string) (removed []cordon.Cordon, err error) {
	err = c.ask(ctx, http.MethodPost, "/uncordon", url.Values{"device": devices, "by": {by}}, &removed)
	return removed, err
}

// Forget removes an absent card from the ledger and returns it.
func (c *Client) Forget(ctx context.Context, card, by string) (forgotten ledger.Missing, err error) {
	err = c.ask(ctx, http.MethodPost, "/forget", url.Values{"card": {card}, "by": {by}}, &forgotten)
	return forgotten, err
}

// ask sends a request and decodes the response into answer.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	body, err := c.do(ctx, method, path, query)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, mostBytes+1))
	if err == nil && len(text) > mostBytes {
		err = errTooLong
	}
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return c.unreadable(err)
	}
	return nil
}

// do sends a request and returns the response's body.
func (c *Client) do(ctx context.Context, method, path string, query url.Values) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://daemon"+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // drop u's made-up address
		}
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // drop the path, which is added below
		}
		return nil, fmt.Errorf("%s: %w", c.path, err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		return nil, fmt.Errorf("%s: %s", c.path, terminal.Escape(strings.TrimSpace(string(text))))
	}
	return answer.Body, nil
}
