package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// On a machine that does nothing else, no step and no story should take this long. The limits are high because the
// guest's processor is emulated.
const (
	stepTimeout  = 30 * time.Second
	storyTimeout = 2 * time.Minute
)

const syslogSocket = "/dev/log"

// rig is the state of a story.
type rig struct {
	*machine
	ctx context.Context // for processes and servers that the story starts
	tables
	log *os.File

	kubelet   *feed // nil if no kubelet is running
	pods      *simkubelet.PodResources
	daemon    *daemon // nil if no daemon is running
	claims    *claims // nil if the claims process is not running
	journal   *journal
	syslog    *net.UnixConn
	syslogged chan struct{}       // closed when readSyslog has returned
	commands  map[string]*command // commands that have been started and that no step has waited for yet
	output    string              // output of the last command that ended
	cause     cause
	program   chan error // result of the last programming
	holds     []hold
	uses      map[string]use // files of the functions that a container is using, by address
	writes    []chan error   // results of writeHeld

	story story.Story // for recordings' headers
	step  story.Step  // the current step
	done  int         // line of the last step that recorded uevents
}

// cause is the story's last action.
type cause struct {
	name string // the verb and, for the host verb, the request
	at   time.Time
}

func newRig(ctx context.Context, m *machine, name string, t tables) (*rig, error) {
	r := &rig{machine: m, ctx: ctx, tables: t, program: make(chan error, 1), commands: map[string]*command{}, uses: map[string]use{}, syslogged: make(chan struct{})}
	for _, left := range []string{filepath.Join(kubeletDir, simkubelet.Checkpoint), containerDir, cdiDir, claimsDir, bitstreamDir, commandDir, storeDir, syslogSocket, configFile} {
		if err := os.RemoveAll(left); err != nil { // left by an earlier story
			return nil, err
		}
	}
	if err := errors.Join(os.Mkdir(bitstreamDir, 0o755), os.Mkdir(commandDir, 0o755)); err != nil {
		return nil, err
	}
	var err error
	if r.log, err = os.Create(filepath.Join("/out", name+".log")); err != nil {
		return nil, err
	}
	r.journal = &journal{copy: r.log}
	if r.syslog, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: syslogSocket, Net: "unixgram"}); err != nil {
		return nil, err
	}
	go r.readSyslog(r.syslog)
	if r.kubelet, err = startKubelet(ctx); err != nil {
		return nil, err
	}
	if r.pods, err = simkubelet.StartPodResources(ctx, podsSocket); err != nil {
		return nil, err
	}
	r.pods.Join(r.kubelet.kubelet)
	return r, openToAll(filepath.Dir(podsSocket), podsSocket)
}

// close ends all of the story's processes and servers. It returns their errors, and also an error if other processes
// have opened device nodes or the kernel has logged errors.
func (r *rig) close() error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(r.ctx), stepTimeout, fmt.Errorf("timeout after %v", stepTimeout))
	defer cancel()
	errs := []error{r.endCommands(ctx), r.syslog.Close()}
	for _, u := range r.uses {
		errs = append(errs, u.close())
	}
	errs = append(errs, r.endWrites(ctx), r.endClaims())
	<-r.syslogged
	if r.daemon != nil {
		errs = append(errs, r.daemon.end())
	}
	if r.kubelet != nil {
		r.kubelet.end()
	}
	r.pods.Stop()
	errs = append(errs, r.opens.check())
	for _, line := range r.kernelErrors() {
		errs = append(errs, fmt.Errorf("kernel log: found %s, want no errors", line))
	}
	return errors.Join(append(errs, r.log.Close())...)
}
