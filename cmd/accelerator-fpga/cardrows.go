package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/programming/fpga"
)

// cardRow is a card in JSON. Keys that `accelerator-device-plugin devices` also prints have the same meaning there.
type cardRow struct {
	ID         string    `json:"id"`
	PCIAddress string    `json:"pciAddress"`
	Driver     string    `json:"driver"`
	FME        *fmeRow   `json:"fme"`
	Ports      []portRow `json:"ports"`
}

type fmeRow struct {
	FME         string            `json:"fme"`
	Driver      string            `json:"driver"`
	PCIAddress  string            `json:"pciAddress"` // the address of the function with the FME
	InterfaceID string            `json:"interfaceId"`
	Error       string            `json:"error,omitempty"` // why InterfaceID couldn't be read
	Ports       []string          `json:"ports"`           // the card's ports; the card may be a virtual function of PCIAddress
	Attributes  map[string]string `json:"attributes,omitempty"`
	Sensors     []sensorRow       `json:"sensors,omitempty"`
	SensorError string            `json:"sensorError,omitempty"` // why the sensors couldn't be found or read in time

	attributes []fpga.Attribute
}

type portRow struct {
	ID          string            `json:"id"`
	Port        string            `json:"port"`
	PortID      *int              `json:"portId"`
	Driver      string            `json:"driver"`
	PCIAddress  string            `json:"pciAddress"`
	AFUID       string            `json:"afuId"`
	Error       string            `json:"error,omitempty"` // why AFUID couldn't be read
	InterfaceID string            `json:"interfaceId"`
	Parent      string            `json:"parent"` // the FME
	Attributes  map[string]string `json:"attributes,omitempty"`

	afu        string // as shown in tables
	attributes []fpga.Attribute
}

func fmeRowOf(c fpga.Card, attributes []fpga.Attribute) fmeRow {
	r := fmeRow{FME: c.FME, Driver: c.Driver, PCIAddress: c.FMEAddress, InterfaceID: c.InterfaceID, Ports: []string{},
		Attributes: mapOf(attributes), attributes: attributes}
	if c.InterfaceErr != nil {
		r.Error = c.InterfaceErr.Error()
	}
	for _, p := range c.Ports {
		r.Ports = append(r.Ports, p.Name)
	}
	return r
}

func portRowOf(c fpga.Card, p fpga.Port, attributes []fpga.Attribute) portRow {
	r := portRow{ID: c.ID(), Port: p.Name, Driver: c.Driver, PCIAddress: c.Address, AFUID: p.AFUID,
		InterfaceID: c.InterfaceID, Parent: c.FME, Attributes: mapOf(attributes), attributes: attributes, afu: p.AFUID}
	if p.Number >= 0 {
		r.PortID = &p.Number
	}
	if p.Number > 0 { // as in the daemon's device ids
		r.ID += "-p" + strconv.Itoa(p.Number)
	}
	if p.AFUErr != nil && !errors.Is(p.AFUErr, fs.ErrNotExist) {
		r.Error = p.AFUErr.Error()
	}
	switch {
	case p.Number < 0:
		r.afu = "no driver"
	case errors.Is(p.AFUErr, syscall.EBUSY):
		r.afu = "disabled"
	case r.Error != "":
		r.afu = "unreadable"
	case sysfs.AllOnes(p.AFUID):
		r.afu = "does not answer"
	}
	return r
}

func mapOf(attributes []fpga.Attribute) map[string]string {
	values := make(map[string]string)
	for _, a := range attributes {
		if a.Err == nil {
			values[a.Name] = a.Value
		}
	}
	return values
}

func printFMEs(w io.Writer, rows []fmeRow, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, rows)
	}
	if len(rows) == 0 {
		return printNone(w, "FME")
	}
	t := terminal.NewTable(w)
	t.Line("FME", "CARD", "DRIVER", "INTERFACE", "PORTS")
	for _, r := range rows {
		t.Line(r.FME, r.PCIAddress, r.Driver, cmp.Or(r.InterfaceID, unreadable(r.Error)), strings.Join(r.Ports, ","))
	}
	return t.Flush()
}

func printPorts(w io.Writer, rows []portRow, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, rows)
	}
	if len(rows) == 0 {
		return printNone(w, "port")
	}
	t := terminal.NewTable(w)
	t.Line("PORT", "CARD", "NUMBER", "DRIVER", "AFU", "FME", "INTERFACE")
	for _, r := range rows {
		t.Line(r.Port, r.PCIAddress, number(r.PortID), r.Driver, r.afu, r.Parent, r.InterfaceID)
	}
	return t.Flush()
}

func printNone(w io.Writer, kind string) error {
	_, err := fmt.Fprintf(w, "no %s of an FPGA card: lspci -k shows cards and their drivers\n", kind)
	return err
}

func printCard(w io.Writer, r cardRow, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, r)
	}
	t := terminal.NewTable(w)
	t.Line("Card", r.PCIAddress)
	t.Line("Driver", r.Driver)
	if r.FME != nil {
		fmeLines(t, *r.FME)
	}
	for _, p := range r.Ports {
		fmt.Fprintln(t)
		portLines(t, p)
	}
	return t.Flush()
}

func printFME(w io.Writer, r fmeRow, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, r)
	}
	t := terminal.NewTable(w)
	t.Line("Card", r.PCIAddress)
	t.Line("Driver", r.Driver)
	fmeLines(t, r)
	return t.Flush()
}

func printPort(w io.Writer, r portRow, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, r)
	}
	t := terminal.NewTable(w)
	t.Line("Card", r.PCIAddress)
	t.Line("Driver", r.Driver)
	t.Line("FME", r.Parent)
	t.Line("Interface", r.InterfaceID)
	portLines(t, r)
	return t.Flush()
}

func fmeLines(t terminal.Table, r fmeRow) {
	t.Line("FME", r.FME)
	t.Line("Interface", cmp.Or(r.InterfaceID, unreadable(r.Error)))
	t.Line("Ports", strings.Join(r.Ports, ", "))
	attributeLines(t, r.attributes)
	sensorLines(t, r.Sensors, r.SensorError)
}

func portLines(t terminal.Table, r portRow) {
	t.Line("Port", r.Port)
	t.Line("Number", number(r.PortID))
	t.Line("AFU", r.afu)
	attributeLines(t, r.attributes)
}

func attributeLines(t terminal.Table, all []fpga.Attribute) {
	for _, a := range all {
		value := a.Value
		if a.Err != nil {
			value = unreadable(a.Err.Error())
		}
		t.Line(a.Name, value)
	}
}

func unreadable(err string) string {
	if err == "" {
		return ""
	}
	return "unreadable: " + terminal.Escape(err)
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
