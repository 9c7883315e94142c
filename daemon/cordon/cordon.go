package cordon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Cordon takes a card, or one of its ports, out of service.
type Cordon struct {
	Device string    `json:"device" yaml:"device"` // as in exclude: BB:DD.F or DDDD:BB:DD.F, ports with -pN
	By     string    `json:"by" yaml:"by"`
	Why    string    `json:"why" yaml:"why"`
	Since  time.Time `json:"since" yaml:"since"`
	Until  time.Time `json:"until,omitzero" yaml:"until,omitempty"` // zero means until it is uncordoned
}

// String returns the cordon as one line of text, with times in the local time zone.
func (c Cordon) String() string {
	const day, clock = "2006-01-02", "15:04"
	since, until := c.Since.Local(), c.Until.Local()
	text := c.Device + " cordoned by " + c.By + " since " + since.Format(day+" "+clock)
	switch {
	case c.Until.IsZero():
	case since.Format(day) == until.Format(day):
		text += " until " + until.Format(clock)
	default:
		text += " until " + until.Format(day+" "+clock)
	}
	return text + ": " + c.Why
}

// Find returns the cordon that applies to a device: its own, its card's, or that of one of its members. It returns nil
// if there is none. Members are PCI addresses that include the domain.
func Find(all []Cordon, id string, members ...string) *Cordon {
	card, _, isPort := strings.Cut(id, "-p")
	for i, c := range all {
		if c.Device == id || c.Device == card || !isPort && c.Device == id+"-p0" ||
			slices.ContainsFunc(members, func(m string) bool { return strings.TrimPrefix(m, "0000:") == c.Device }) {
			return &all[i]
		}
	}
	return nil
}

// ended reports whether the cordon has expired.
func (c Cordon) ended(now time.Time) bool { return !c.Until.IsZero() && !now.Before(c.Until) }

// Limits for a file.
const (
	maxFile    = 1 << 20 // bytes
	maxCordons = 256
	maxBy      = 64  // characters
	maxWhy     = 256 // characters
)

// content is the JSON object in cordons.json.
type content struct {
	Cordons []Cordon `json:"cordons"`
}

// parse parses a file and returns the cordons, sorted by device.
func parse(text []byte) ([]Cordon, error) {
	var c content
	if err := privatedir.DecodeJSON(text, &c); err != nil {
		return nil, fmt.Errorf(`%w, want {"cordons": [...]}`, err)
	}
	if n := len(c.Cordons); n > maxCordons {
		return nil, fmt.Errorf("found %d cordons, want at most %d", n, maxCordons)
	}
	for i := range c.Cordons {
		if err := c.Cordons[i].check(); err != nil {
			return nil, fmt.Errorf("cordons[%d]: %w", i, err)
		}
	}
	slices.SortFunc(c.Cordons, byDevice)
	for i, next := range c.Cordons[min(1, len(c.Cordons)):] {
		if next.Device == c.Cordons[i].Device {
			return nil, fmt.Errorf("found device %q twice, want it once", next.Device)
		}
	}
	return c.Cordons, nil
}

func byDevice(a, b Cordon) int { return cmp.Compare(a.Device, b.Device) }

// check returns an error if Add couldn't have created this cordon. It converts the times to UTC.
func (c *Cordon) check() error {
	if device, err := sysfs.ParseDevice(c.Device); err != nil {
		return fmt.Errorf("device: found %q, %w", c.Device, err)
	} else if device != c.Device {
		return fmt.Errorf("device: found %q, want %q", c.Device, device)
	}
	if err := checkText("by", c.By, maxBy); err != nil {
		return err
	}
	if err := checkText("why", c.Why, maxWhy); err != nil {
		return err
	}
	if c.Since.IsZero() {
		return errors.New("since: found none, want a time")
	}
	if c.ended(c.Since) {
		return fmt.Errorf("until: found %s, want a time later than \"since\" (%s)",
			c.Until.Format(time.RFC3339), c.Since.Format(time.RFC3339))
	}
	c.Since, c.Until = c.Since.UTC(), c.Until.UTC()
	return nil
}

// checkText returns an error if text is empty, is too long, or contains characters that could forge log lines or
// control a terminal.
func checkText(name, text string, most int) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%s: found none, want a text", name)
	case !utf8.ValidString(text), strings.ContainsFunc(text, odd):
		return fmt.Errorf("%s: found %.300q, want printable characters", name, text)
	case utf8.RuneCountInString(text) > most:
		return fmt.Errorf("%s: found %d characters, want at most %d", name, utf8.RuneCountInString(text), most)
	}
	return nil
}
