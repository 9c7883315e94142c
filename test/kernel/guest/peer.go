package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

const peerSocket = "/run/peer/pods.sock"

// peer is another Go process, which echoes bytes and serves gRPC. The costs verb measures how long it takes to exchange
// messages with this process.
type peer struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     io.Reader
}

func startPeer(ctx context.Context) (*peer, error) {
	p := &peer{process: exec.CommandContext(ctx, "/init", "peer")}
	p.process.Stderr = os.Stderr
	var err error
	if p.in, err = p.process.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.process.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.process.Start(); err != nil {
		return nil, err
	}
	// Once the first echo has arrived, the process is serving.
	if err := p.echo(); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// echo sends a byte and waits for the same byte.
func (p *peer) echo() error {
	if _, err := p.in.Write([]byte{1}); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	_, err := io.ReadFull(p.out, make([]byte, 1))
	return err
}

func (p *peer) end() error { return errors.Join(p.in.Close(), p.process.Wait()) }

// runPeer is the main function of the peer process. It returns when standard input ends.
func runPeer(ctx context.Context) error {
	pods, err := simkubelet.StartPodResources(ctx, peerSocket)
	if err != nil {
		return err
	}
	defer pods.Stop()
	_, err = io.Copy(os.Stdout, struct{ io.Reader }{os.Stdin})
	return err
}
