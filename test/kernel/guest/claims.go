package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	claimsProgram = "/bin/claims" // ../../../dra/claims/kernelrig
	claimsDir     = "/run/claims"
)

// claims is a process that runs the DRA driver's code for claims.
type claims struct {
	process *exec.Cmd
	input   io.WriteCloser
	answers chan string   // closed when the process's stdout ends
	logged  chan struct{} // closed when the process's log ends
}

func startClaims(log *journal) (*claims, error) {
	c := &claims{
		process: exec.Command(claimsProgram, "--dir="+claimsDir, "--cdi-dir="+cdiDir, "--hook="+tool),
		answers: make(chan string, 1), logged: make(chan struct{}),
	}
	input, err := c.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := c.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	c.input = input
	go func() {
		defer close(c.answers)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			c.answers <- lines.Text()
		}
	}()
	go func() {
		defer close(c.logged)
		log.read(stderr)
	}()
	return c, nil
}

// end stops the process, and returns an error unless it exits with status 0.
func (c *claims) end() error {
	err := c.input.Close()
	kill := time.AfterFunc(10*time.Second, func() { _ = c.process.Process.Kill() })
	defer kill.Stop()
	for range c.answers { // until the channel is closed
	}
	<-c.logged
	if err := errors.Join(err, c.process.Wait()); err != nil {
		return fmt.Errorf("%s has failed: %w", claimsProgram, err)
	}
	return nil
}

// runClaims starts or stops the claims process.
func (r *rig) runClaims(verb string) (err error) {
	switch {
	case verb == "stop" && r.claims != nil:
		err, r.claims = r.claims.end(), nil
	case verb == "start" && r.claims == nil:
		r.claims, err = startClaims(r.journal)
	default:
		err = errors.New("found the claims in this state already")
	}
	return err
}

// claim sends a request to the claims process. It returns an error unless the request succeeds (if wanted is true) or
// fails (if wanted is false).
func (r *rig) claim(ctx context.Context, request []string, wanted bool) error {
	if r.claims == nil {
		return errors.New("the claims are not running")
	}
	if _, err := fmt.Fprintln(r.claims.input, strings.Join(request, " ")); err != nil {
		return err
	}
	select {
	case answer, ok := <-r.claims.answers:
		fmt.Fprintf(r.log, "$ claim %s\n%s\n", strings.Join(request, " "), answer)
		if r.output = answer; !ok || (answer == "ok") != wanted {
			return fmt.Errorf("found %q", answer)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endClaims stops the claims process and removes the claims.
func (r *rig) endClaims() error {
	if r.claims == nil {
		return nil
	}
	return errors.Join(r.runClaims("stop"), os.RemoveAll(claimsDir))
}
