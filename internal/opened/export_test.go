package opened

var GroupOf = groupOf
