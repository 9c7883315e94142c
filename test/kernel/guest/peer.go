package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
)

const peerSocket = "/run/peer/pods.sock"

// peer is another Go process, to measure what it takes to speak to one. It echoes
// bytes, and serves gRPC.
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
	// It echoes when it serves.
	if err := p.echo(); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// echo sends a byte and waits until it is back.
func (p *peer) echo() error {
	if _, err := p.in.Write([]byte{1}); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	_, err := io.ReadFull(p.out, make([]byte, 1))
	return err
}

func (p *peer) end() error { return errors.Join(p.in.Close(), p.process.Wait()) }

// bePeer is the other process. It ends with its input.
func bePeer(ctx context.Context) error {
	pods, err := simkubelet.StartPodResources(ctx, peerSocket)
	if err != nil {
		return err
	}
	defer pods.Stop()
	_, err = io.Copy(os.Stdout, struct{ io.Reader }{os.Stdin})
	return err
}
