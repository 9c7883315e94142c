package procusers

var GroupOf = groupOf
