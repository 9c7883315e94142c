package story

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Story is one test.
type Story struct {
	Name  string
	Title string
	Steps []Step
}

// Step is one line of a story.
type Step struct {
	Line int // counted from 1
	Verb string
	Args []string
}

func (s Step) String() string { return strings.Join(append([]string{s.Verb}, s.Args...), " ") }

// grammar holds the allowed number of arguments of a verb, and a function that checks them.
type grammar struct {
	least, most int // most < 0 for no limit
	check       func(args []string) error
}

var grammars = map[string]grammar{
	// the daemon
	"start":  {0, -1, checkStart},
	"end":    {0, 0, nil},
	"signal": {1, 1, oneOf("STOP", "CONT", "HUP")},
	"rule":   {2, -1, checkRule},

	// the kubelet and its pods
	"kubelet": {1, 1, oneOf("stop", "start", "restart")},
	"hold":    {2, 2, nil},
	"release": {1, 1, nil},

	// the claims of the DRA driver
	"claims":     {1, 1, oneOf("start", "stop")},
	"claim":      {2, 4, checkClaim},
	"claimfails": {2, 4, checkClaim},

	// the hardware
	"plug":    {3, 3, nil},
	"unplug":  {1, 1, nil},
	"cycle":   {4, 4, checkCount},
	"measure": {4, 4, checkCount},
	"random":  {2, 2, checkCount},
	"costs":   {4, 4, checkCount},
	"host":    {1, -1, nil},

	// a container
	"open":           {1, 2, checkOpen},
	"close":          {1, 1, nil},
	"mknod":          {1, 1, nil},
	"reaches":        {2, 2, nil},
	"use":            {1, 2, checkUse},
	"refused":        {1, 1, nil},
	"leave":          {1, 1, nil},
	"container":      {1, -1, checkContainer},
	"containerfails": {1, -1, checkContainer},

	// commands in the background: the tool, a container
	"begin":       {3, -1, checkBegin},
	"programming": {1, 1, nil},
	"locking":     {1, 1, checkCount},
	"kill":        {1, 2, checkKill},
	"ended":       {2, 2, checkEnded},
	"says":        {1, -1, nil},
	"opened":      {0, -1, nil},

	// the administrator
	"insmod":       {1, -1, nil},
	"rmmod":        {1, -1, nil},
	"bind":         {1, 2, nil},
	"unbind":       {1, 2, checkUnbind},
	"vfs":          {2, 3, checkVFs},
	"inject":       {2, 2, checkInject},
	"remove":       {1, 1, nil},
	"rescan":       {0, 0, nil},
	"enable":       {1, 1, nil},
	"clear":        {1, 1, nil},
	"write":        {2, 2, nil},
	"program":      {2, 3, checkProgram},
	"programmed":   {1, 1, nil},
	"release-port": {2, 2, checkPort},
	"assign-port":  {2, 2, checkPort},
	"tool":         {1, -1, nil},
	"toolfails":    {1, -1, nil},
	"plugin":       {1, -1, nil},
	"pluginfails":  {1, -1, nil},
	"bitstream":    {2, 4, checkBitstream},
	"forge":        {2, 2, oneOf("multicast", "through")},
	"settle":       {0, 0, nil},

	// recordings: docs/testing.md, Fixtures
	"heard":   {2, 3, nil},
	"record":  {1, 1, checkName},
	"uevents": {0, 1, checkName},

	// checks
	"expect":    {1, -1, checkExpect},
	"withheld":  {1, 1, nil},
	"quiet":     {1, 1, checkDuration},
	"log":       {1, -1, checkFields},
	"nolog":     {1, -1, checkFields},
	"given":     {1, -1, nil},
	"cdi":       {1, -1, nil},
	"exclusive": {1, 1, nil},
	"reads":     {2, 2, nil},
}

// Verbs lists the verbs, sorted.
func Verbs() []string { return slices.Sorted(maps.Keys(grammars)) }

// Parse parses a story. Its errors begin with the name and the line.
func Parse(name, text string) (Story, error) {
	s := Story{Name: name}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "#"); ok && number == 1 {
			s.Title = strings.TrimSpace(title)
		}
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		step := Step{Line: number, Verb: words[0], Args: words[1:]}
		if err := step.check(); err != nil {
			return Story{}, fmt.Errorf("%s:%d: %s: %w", name, number, step.Verb, err)
		}
		s.Steps = append(s.Steps, step)
	}
	if s.Title == "" {
		return Story{}, fmt.Errorf("%s:1: found no title, want a comment", name)
	}
	return s, nil
}

func (s Step) check() error {
	g, ok := grammars[s.Verb]
	switch n := len(s.Args); {
	case !ok:
		return fmt.Errorf("found no such verb, want one of %s", strings.Join(Verbs(), ", "))
	case n < g.least || g.most >= 0 && n > g.most:
		return fmt.Errorf("found %d arguments, want %s", n, g.arity())
	case g.check != nil:
		return g.check(s.Args)
	}
	return nil
}

func (g grammar) arity() string {
	switch {
	case g.most < 0:
		return fmt.Sprintf("%d or more", g.least)
	case g.least == g.most:
		return fmt.Sprint(g.least)
	}
	return fmt.Sprintf("%d to %d", g.least, g.most)
}

// Duration returns the argument of quiet.
func (s Step) Duration() time.Duration {
	d, _ := time.ParseDuration(s.Args[0]) // Parse has checked it
	return d
}
