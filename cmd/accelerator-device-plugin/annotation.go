package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/server/offer"
)

// annotationMode is the annotation of a node that overrules --mode. It is that of Intel's
// plugin.
const annotationMode = "fpga.intel.com/device-plugin-mode"

// firstAnswer is how long the start waits for the API server. A refusal is an answer.
const firstAnswer = 3 * time.Second

// modeSelector chooses the mode by the annotation of a node. It belongs to the goroutine that
// follows the node.
type modeSelector struct {
	setting  string      // --mode, which is used without an annotation
	mode     string      // chosen last
	modes    chan string // of size 1: holds the chosen mode until it is taken over
	answered bool        // the API server has answered, perhaps with a refusal
	log      *zap.Logger
}

// changed chooses the mode for the present state of the node. An annotation that is not a mode
// is logged and ignored.
func (m *modeSelector) changed(n apiserver.Node) {
	m.answered = true
	asked, ok := n.Annotations[annotationMode]
	switch {
	case !n.Exists:
		m.log.Warn("node is not known to the API server", event.ConfigNotice, event.Node(n.Name))
		m.mode = m.setting
	case !ok:
		m.mode = m.setting
	case !slices.Contains(offer.Modes(), asked):
		m.log.Warn("annotation is no mode, the old one stays", event.ConfigNotice, event.Node(n.Name), event.Mode(m.mode),
			event.Reason(fmt.Sprintf("%s: %.100q is not one of %s", annotationMode, asked, strings.Join(offer.Modes(), ", "))))
	default:
		m.mode = asked
	}
	m.choose()
}

// refused keeps the mode, because the API server refuses to return the node.
func (m *modeSelector) refused(node string) {
	if !m.answered {
		m.answered = true
		logUnknownMode(m.log, node, m.mode)
	}
	m.choose()
}

// choose replaces a mode that has not been taken over yet. It does not block.
func (m *modeSelector) choose() {
	select {
	case <-m.modes:
	default:
	}
	m.modes <- m.mode
}

// logUnknownMode logs that the daemon starts although the annotation is not known.
func logUnknownMode(log *zap.Logger, node, mode string) {
	log.Warn("annotation is not known, the mode is as set", event.ConfigNotice, event.Node(node), event.Mode(mode))
}
