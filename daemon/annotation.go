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

// annotationMode is the node annotation that overrides --mode. Intel's plugin uses the same name.
const annotationMode = "fpga.intel.com/device-plugin-mode"

// FirstAnswer is how long the daemon waits for the API server at startup. A rejected request counts as an answer.
const FirstAnswer = 3 * time.Second

// modeSelector chooses the mode based on the node's annotation. It belongs to the goroutine that follows the node.
type modeSelector struct {
	setting  string      // --mode, which is used if there is no annotation
	mode     string      // the last mode chosen
	modes    chan string // buffers the chosen mode until Serve receives it; has capacity 1
	answered bool        // the API server has answered, possibly by rejecting the request
	log      *zap.Logger
}

// changed chooses the mode based on the changed node's annotation. An annotation that isn't a mode is logged and
// ignored.
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

// refused is called when the API server rejects the request for the node. It keeps the mode.
func (m *modeSelector) refused(node string) {
	if !m.answered {
		m.answered = true
		logUnknownMode(m.log, node, m.mode)
	}
	m.choose()
}

// choose sends the mode to Serve, replacing any that Serve hasn't received yet. It doesn't block.
func (m *modeSelector) choose() {
	select {
	case <-m.modes:
	default:
	}
	m.modes <- m.mode
}

// logUnknownMode logs that the daemon starts in the mode from its settings because the annotation couldn't be read.
func logUnknownMode(log *zap.Logger, node, mode string) {
	log.Warn("annotation of the node not known, mode of the settings used", logevent.ConfigNotice, logevent.Node(node), logevent.Mode(mode))
}

// logMode logs a mode change.
func logMode(log *zap.Logger, before, now string) {
	if before != now {
		log.Info("mode changed", logevent.ModeChanged, logevent.Old(before), logevent.New(now))
	}
}
