package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/offer"
)

// annotationMode is the annotation of a node that overrides --mode. Intel's plugin uses the same name.
const annotationMode = "fpga.intel.com/device-plugin-mode"

// FirstAnswer is how long the start waits for the API server. A refusal counts as an answer.
const FirstAnswer = 3 * time.Second

// modeSelector chooses the mode by the annotation of a node. It belongs to the goroutine that
// follows the node.
type modeSelector struct {
	setting  string      // --mode, which is used without an annotation
	mode     string      // chosen last
	modes    chan string // of size 1: holds the chosen mode until Serve receives it
	answered bool        // the API server has answered, possibly with a refusal
	log      *zap.Logger
}

// changed chooses the mode for the current state of the node. It logs and ignores an annotation that
// is not a mode.
func (m *modeSelector) changed(n apiserver.Node) {
	m.answered = true
	asked, ok := n.Annotations[annotationMode]
	switch {
	case !n.Exists:
		m.log.Warn("node is not known to the API server", logevent.ConfigNotice, logevent.Node(n.Name))
		m.mode = m.setting
	case !ok:
		m.mode = m.setting
	case !slices.Contains(offer.Modes(), asked):
		m.log.Warn("annotation of the node is not a mode, previous mode kept", logevent.ConfigNotice, logevent.Node(n.Name), logevent.Mode(m.mode),
			logevent.Reason(fmt.Sprintf("%s: found %.100q, want one of %s", annotationMode, asked, strings.Join(offer.Modes(), ", "))))
	default:
		m.mode = asked
	}
	m.choose()
}

// refused handles a refusal of the API server to return the node. The mode stays as it is.
func (m *modeSelector) refused(node string) {
	if !m.answered {
		m.answered = true
		logUnknownMode(m.log, node, m.mode)
	}
	m.choose()
}

// choose sends the mode. It replaces a mode that was not received yet, and does not block.
func (m *modeSelector) choose() {
	select {
	case <-m.modes:
	default:
	}
	m.modes <- m.mode
}

// logUnknownMode logs that the daemon starts in the mode of the settings, because the annotation is unknown.
func logUnknownMode(log *zap.Logger, node, mode string) {
	log.Warn("annotation of the node not known, mode of the settings used", logevent.ConfigNotice, logevent.Node(node), logevent.Mode(mode))
}

// logMode logs a change of the mode.
func logMode(log *zap.Logger, before, now string) {
	if before != now {
		log.Info("mode changed", logevent.ModeChanged, logevent.Old(before), logevent.New(now))
	}
}
