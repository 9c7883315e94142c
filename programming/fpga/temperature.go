package fpga

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sensors"
)

// MaxTemperature determines which cards are too hot to be programmed. The zero value rejects a card if any of its parts
// has reached its own warning limit.
type MaxTemperature struct {
	// Die is an additional limit for the FPGA itself in °C, or 0 for none. If it is set, cards whose temperature isn't
	// known are rejected.
	Die float64
	Off bool // accept all cards and don't read any sensors
}

// longestReading is the maximum time to read a card's temperatures. A board's controller needs about 10 ms.
const longestReading = 2 * time.Second

// Check returns an error if the card is too hot. It reads the sensors of the card's FME and of the board's controller
// for up to 2 s, or until ctx is done. If a read is still blocked by then, its goroutine is abandoned.
//
// Sensors that can't be read in that time are ignored, because a failure to read them says nothing about the card: the
// driver of the board's controller may be missing, or busy with an update. The card also protects itself against
// overheating.
func (m MaxTemperature) Check(ctx context.Context, h Host, card Card) error {
	if m.Off {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- m.check(h, card) }()
	late := time.NewTimer(longestReading)
	defer late.Stop()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late.C:
		if m.Die != 0 {
			err = m.unknown(fmt.Errorf("no answer within %s", longestReading))
		}
	}
	return err
}

func (m MaxTemperature) check(h Host, card Card) error {
	all, failed := sensors.Find(h, card.FMEAddress)
	var readings []sensors.Reading
	for _, s := range all {
		if s.Kind != sensors.Temperature {
			continue
		}
		limits, err := s.Limits()
		failed = errors.Join(failed, err)
		if limits.Least() == 0 && m.Die == 0 {
			continue // there is nothing to compare the value with
		}
		value, err := s.Read()
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if limit := limits.Least(); limit != 0 && value >= limit {
			return tooHot(s.Name+" of "+s.Chip, value, limit)
		}
		readings = append(readings, sensors.Reading{Chip: s.Chip, Name: s.Name, Kind: s.Kind, Value: value, Limits: limits})
	}
	if m.Die == 0 {
		return nil
	}
	for _, r := range sensors.Summarize(readings) {
		switch {
		case r.Name != sensors.Die:
		case r.Value >= m.Die:
			return tooHot(r.Of, r.Value, m.Die)
		default:
			return nil
		}
	}
	return m.unknown(failed)
}

func tooHot(sensor string, value, limit float64) error {
	return fmt.Errorf("too hot: %g °C (%s), want less than %g °C: check the cooling of the node, or use --max-temperature", value, sensor, limit)
}

func (m MaxTemperature) unknown(err error) error {
	if err == nil {
		err = errors.New("no sensor")
	}
	first, _, _ := strings.Cut(err.Error(), "\n") // the error may have several lines
	return fmt.Errorf("the temperature of the FPGA is not known (%s), want less than %g °C (--max-temperature)", first, m.Die)
}
