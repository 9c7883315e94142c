package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/kubelet/peers"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// Options are the settings of a demo.
type Options struct {
	Interactive bool   // after the steps, keep running until ctx is done; not allowed with Functions, XRT or AWS
	Functions   bool   // the card has functions bound to vfio-pci, for which the daemon needs a rule
	XRT         bool   // the card is a U250 that uses XRT
	AWS         bool   // the card is on an AWS instance
	Program     string // this executable's path, for the commands that the demo prints
	Colour      bool   // use terminal colours
	Resource    string
	Hold        time.Duration // the daemon's recovery hold
}

// Paths contains the sockets' paths.
type Paths struct {
	KubeletDir   string // the kubelet stand-in's device plugin directory
	PodResources string // the stand-in's pod-resources socket
	Daemon       string // the daemon's local socket
}

// Daemon runs the daemon on a node until ctx is done. The daemon logs to log.
type Daemon func(ctx context.Context, node *simnode.Node, paths Paths, log io.Writer) error

// stepTimeout is the time limit for a step. It is short, because the whole demo must finish within 30 s.
const stepTimeout = 5 * time.Second

// Run runs the demo and prints its steps to out. It returns an error if a step fails or doesn't have the expected
// effect on the kubelet.
func Run(ctx context.Context, out io.Writer, o Options, daemon Daemon) (err error) {
	dir, err := os.MkdirTemp("", "accel-demo-")
	if err != nil {
		return fmt.Errorf("directory of the demo: %w", err)
	}
	defer os.RemoveAll(dir)
	paths := Paths{
		KubeletDir: filepath.Join(dir, "kubelet"), PodResources: filepath.Join(dir, "pod-resources.sock"), Daemon: filepath.Join(dir, "daemon.sock"),
	}
	if len(paths.KubeletDir) > peers.MaxDir {
		return fmt.Errorf("directory of the demo: found %s, a path of %d bytes, want at most %d: set TMPDIR to a shorter one",
			paths.KubeletDir, len(paths.KubeletDir), peers.MaxDir)
	}
	s := &stage{Options: o, out: out, dir: dir, paths: paths}
	if s.node, err = simnode.New(dir); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "daemon.log"))
	if err != nil {
		return fmt.Errorf("log of the demo: %w", err)
	}
	defer log.Close()
	if s.kubelet, err = simkubelet.Start(ctx, paths.KubeletDir, simkubelet.Behaviour{}); err != nil {
		return err
	}
	defer func() { s.kubelet.Stop() }() // in a func because a step replaces s.kubelet
	if s.pods, err = simkubelet.StartPodResources(ctx, paths.PodResources); err != nil {
		return err
	}
	defer s.pods.Stop()
	s.pods.Join(s.kubelet)

	daemonCtx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- daemon(daemonCtx, s.node, paths, log) }()
	err = s.play(ctx, ended)
	if err == nil && o.Interactive {
		err = s.stay(ctx, ended)
	}
	stop()
	if s.daemonErr == nil {
		s.daemonErr = <-ended
	}
	err = errors.Join(err, s.daemonErr)
	if err != nil {
		s.showLog()
	}
	return err
}

// stage contains the simulated node and kubelet, which the steps change.
type stage struct {
	Options
	out       io.Writer
	dir       string
	paths     Paths
	node      *simnode.Node
	kubelet   *simkubelet.Kubelet
	pods      *simkubelet.PodResources
	daemonErr error // the daemon's error if it exited during the steps
}

// play runs the steps until one fails, because each step depends on the previous ones.
func (s *stage) play(ctx context.Context, ended <-chan error) error {
	fmt.Fprintf(s.out, "A simulated node and a stand-in for the kubelet, in %s\nAFTER is the time since the step began; to plug in a card, the demo first writes its files.\n\n", s.dir)
	fmt.Fprintf(s.out, "  %-52s  %10s  %s\n", "STEP", "AFTER", "RECEIVED BY THE KUBELET")
	all := s.steps()
	switch {
	case s.Functions:
		all = s.functionSteps()
	case s.AWS:
		all = s.awsSteps()
	case s.XRT:
		all = s.xrtSteps()
	}
	begin := time.Now()
	for i, step := range all {
		err := s.run(ctx, step)
		select {
		case s.daemonErr = <-ended:
			if s.daemonErr == nil {
				s.daemonErr = errors.New("the daemon ended by itself")
			}
			return err
		default:
		}
		if err != nil {
			fmt.Fprintf(s.out, "\n%d of %d steps passed in %.1f s\n", i, len(all), time.Since(begin).Seconds())
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	fmt.Fprintf(s.out, "\nAll %d steps passed in %.1f s\n", len(all), time.Since(begin).Seconds())
	return nil
}

// run runs a step and waits for its effect to reach the kubelet.
func (s *stage) run(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	begin := time.Now()
	if err := step.do(ctx); err != nil {
		s.print(step.name, "-", s.paint(terminal.Red, "failed: "+err.Error()))
		return err
	}
	received, at, err := step.await(ctx)
	if err != nil {
		s.print(step.name, "-", s.paint(terminal.Red, "not as expected: "+received))
		return err
	}
	took := at.Sub(begin)
	if took < step.least {
		err = fmt.Errorf("received after %s, want at least the hold of %s", took, step.least)
		s.print(step.name, "-", s.paint(terminal.Red, "not as expected: "+err.Error()))
		return err
	}
	s.print(step.name, fmt.Sprintf("%.2f ms", float64(took)/1e6), received)
	return nil
}

// print prints a row of the table.
func (s *stage) print(step, after, received string) {
	fmt.Fprintf(s.out, "  %-52s  %10s  %s\n", step, after, received)
}

// stay prints each list that the kubelet receives until ctx is done.
func (s *stage) stay(ctx context.Context, ended <-chan error) error {
	if err := s.node.Plug(cardA); err != nil {
		return err
	}
	pulled := filepath.Join(s.dir, "pulled")
	fmt.Fprintf(s.out, `
The node has a card with two ports (%s and %s). Change it from another
terminal:

  PORT=%s
  NODE=%s
  echo %s > $PORT/errors/errors     # port error AP6
  echo %s > $PORT/errors/errors                 # no error
  rm $NODE                                       # the port has no device node
  touch $NODE                                    # it has one again
  CARD=%s
  mv $CARD %s                # the card is pulled
  mv %s $CARD                # it is plugged in again

  %s devices --socket %s

The shell's echo truncates the file before it writes. During that instant the
port is unreadable, so it is unhealthy at once. It is healthy again after the
hold of %s. A port that changes more than 5 times within 20 s is quarantined for
20 s (flapping). The daemon's log:

  tail -n +1 -F %s/daemon.log | %s logs

Interrupt (^C) to end. The directory is removed.

`, portA0, portA1, s.node.PortDir(cardA.Address, 0), filepath.Join(s.node.Dev, s.node.PortNode(cardA.Address, 0)),
		ap6Error, noError, s.node.CardDir(cardA.Address), pulled, pulled,
		s.Program, s.paths.Daemon, s.Hold, s.dir, s.Program)
	printed := s.kubelet.Newest(s.Resource).Number
	for {
		list, err := s.kubelet.AwaitList(ctx, s.Resource, func(l simkubelet.List) bool { return l.Number != printed })
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		printed = list.Number
		s.print("list "+fmt.Sprint(list.Number), list.Received.Format("15:04:05"), s.describe(list.Devices))
		select {
		case s.daemonErr = <-ended:
			return errors.New("the daemon ended by itself")
		default:
		}
	}
}

// showLog prints the daemon's log, because the log's directory is about to be removed.
func (s *stage) showLog() {
	if text, err := os.ReadFile(filepath.Join(s.dir, "daemon.log")); err == nil {
		fmt.Fprintf(s.out, "\nThe daemon's log:\n%s", text)
	}
}
