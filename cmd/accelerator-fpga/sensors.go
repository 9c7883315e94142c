package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/programming/fpga"
)

// sensorsWithin is how long reading a card's sensors can take. There is a limit because a board's controller may never
// answer.
const sensorsWithin = 10 * time.Second

// sensorRow is a sensor in JSON, with the same keys that `accelerator-device-plugin devices` prints.
type sensorRow struct {
	sensors.Reading
	Value *float64 `json:"value"`           // nil if there is no value or it can't be read
	Error string   `json:"error,omitempty"` // why the value or a limit couldn't be read
}

// sensorRows reads a card's sensors. If ctx is done first, it returns the context's cause.
func sensorRows(ctx context.Context, host fpga.Host, address string) ([]sensorRow, error) {
	type answer struct {
		rows []sensorRow
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		var all []sensors.Sensor
		all, a.err = sensors.Find(host, address)
		for _, s := range all {
			a.rows = append(a.rows, sensorRowOf(s))
		}
		answered <- a
	}()
	select {
	case a := <-answered:
		return a.rows, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func sensorRowOf(s sensors.Sensor) sensorRow {
	r := sensorRow{Reading: sensors.Reading{Chip: s.Chip, Name: s.Name, Kind: s.Kind}}
	value, err := s.Read()
	if err == nil {
		r.Value = &value
	} else if errors.Is(err, sensors.ErrNoValue) {
		err = nil
	}
	var lerr error
	r.Limits, lerr = s.Limits()
	if err = errors.Join(err, lerr); err != nil {
		r.Error = err.Error()
	}
	return r
}

// sensorLines prints a line for each sensor: chip/label, value and limits.
func sensorLines(t terminal.Table, rows []sensorRow, problem string) {
	for _, r := range rows {
		value := "no value"
		if r.Value != nil {
			value = strconv.FormatFloat(*r.Value, 'f', -1, 64) + " " + r.Kind.Unit()
		}
		switch {
		case r.Max != 0 && r.Crit != 0:
			value += fmt.Sprintf(" (max %g, crit %g)", r.Max, r.Crit)
		case r.Max != 0:
			value += fmt.Sprintf(" (max %g)", r.Max)
		case r.Crit != 0:
			value += fmt.Sprintf(" (crit %g)", r.Crit)
		}
		if r.Error != "" {
			value = unreadable(r.Error)
		}
		t.Line(r.Chip+"/"+r.Name, value)
	}
	if problem != "" {
		t.Line("sensors", unreadable(problem))
	}
}
