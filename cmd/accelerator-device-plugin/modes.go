package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/server/offer"
	"go.uber.org/zap"
)

// run runs one generation after another, each with the mode that is asked for
// then, until ctx ends or one fails. Without modes there is one.
func (s *service) run(ctx context.Context, modes <-chan string) error {
	mode, ok := s.firstMode(ctx, modes)
	for ok {
		current, end := context.WithCancelCause(ctx)
		next := make(chan string, 1)
		go func() { next <- awaitOther(current, modes, mode, end) }()
		err := s.generation(current, mode)
		end(nil)
		asked := <-next
		if err != nil || ctx.Err() != nil {
			return err
		}
		s.log.Info("mode changed", event.ModeChanged, event.Old(mode), event.New(asked))
		mode = asked
	}
	return nil
}

// awaitOther waits for a mode that is not the present one, ends the generation and
// returns it. When the generation ends by itself, it returns the present one.
func awaitOther(ctx context.Context, modes <-chan string, present string, end context.CancelCauseFunc) string {
	for {
		select {
		case <-ctx.Done():
			return present
		case asked := <-modes:
			if asked != present {
				end(nil)
				return asked
			}
		}
	}
}

// annotationMode is the annotation of a node that overrules --mode; Intel's plugin
// has the same.
const annotationMode = "fpga.intel.com/device-plugin-mode"

// modes returns where the modes come from that the node's annotation asks for, and
// what follows it until its context ends; nothing where nobody is to be asked. The
// channel holds the newest only.
func (s *service) modes(client *apiserver.Client) (<-chan string, func(context.Context) error) {
	if client == nil || !s.cfg.NodeAnnotation {
		return nil, nil
	}
	modes := make(chan string, 1)
	wish := wish{mode: s.cfg.Mode, otherwise: s.cfg.Mode, log: s.log}
	ask := func(mode string) {
		select {
		case <-modes: // not taken yet, and old now
		default:
		}
		modes <- mode
	}
	return modes, func(ctx context.Context) error {
		return client.FollowNode(ctx, s.cfg.NodeName, func(n apiserver.Node) { ask(wish.of(n)) }, func() { ask(wish.refused(s.cfg.NodeName)) })
	}
}

// wish is the mode that a node asks for.
type wish struct {
	mode      string // the last one
	otherwise string // where it asks for none
	heard     bool   // something of it, if only a refusal
	log       *zap.Logger
}

// of is the mode that the annotation asks for.
func (w *wish) of(n apiserver.Node) string {
	w.heard = true
	asked, ok := n.Annotations[annotationMode]
	switch {
	case !n.Exists:
		w.log.Warn("node is not known to the API server", event.ConfigNotice, event.Node(n.Name))
		w.mode = w.otherwise
	case !ok:
		w.mode = w.otherwise
	case !slices.Contains(offer.Modes(), asked):
		w.log.Warn("annotation is no mode, the old one stays", event.ConfigNotice, event.Node(n.Name), event.Mode(w.mode),
			event.Reason(fmt.Sprintf("%s: %.100q is not one of %s", annotationMode, asked, strings.Join(offer.Modes(), ", "))))
	default:
		w.mode = asked
	}
	return w.mode
}

// refused is the mode while the API server does not let us see the annotation: the
// last one that it asked for, or what is set.
func (w *wish) refused(node string) string {
	if !w.heard {
		w.heard = true
		sayUnknown(w.log, node, w.mode)
	}
	return w.mode
}

// sayUnknown says that it begins without knowing the annotation.
func sayUnknown(log *zap.Logger, node, mode string) {
	log.Warn("annotation is not known, the mode is as set", event.ConfigNotice, event.Node(node), event.Mode(mode))
}

// firstAnswer is how long the start waits for the API server: to begin in one mode
// and go on in another one costs the kubelet's resources twice. A refusal is an answer.
const firstAnswer = 3 * time.Second

// firstMode is the mode to begin with; false when ctx ended before.
func (s *service) firstMode(ctx context.Context, modes <-chan string) (string, bool) {
	if modes == nil {
		return s.cfg.Mode, ctx.Err() == nil
	}
	timeout := time.NewTimer(firstAnswer)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return "", false
	case mode := <-modes:
		if mode != s.cfg.Mode {
			s.log.Info("mode changed", event.ModeChanged, event.Old(s.cfg.Mode), event.New(mode))
		}
		return mode, true
	case <-timeout.C:
		sayUnknown(s.log, s.cfg.NodeName, s.cfg.Mode)
		return s.cfg.Mode, true
	}
}
