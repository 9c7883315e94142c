package hook

var (
	ReadState  = readState
	ReadConfig = readConfig
)

type (
	Pair      = pair
	Placement = placement
)

func NewPair(interfaceID, afu string) Pair { return pair{interfaceID, interfaceID, afu} }

func (p Pair) Fields() [3]string { return [3]string{p.name, p.interfaceID, p.afu} }

func (p Placement) Port() int { return p.port.Number }

func (p Placement) Card() string { return p.card.Address }

func (p Placement) Loaded() bool { return p.loaded }

var (
	Assign   = assign
	Pairs    = config.pairs
	AppendTo = appendTo
)

type Config = config

func Ports(c Config) []string {
	paths, _ := c.ports()
	return paths
}
