package control

// Listen listens on a path.
var Listen = listen

// RunOn is [Run] with another way to listen.
var RunOn = run

// DialWith is [Dial] with another way to connect.
var DialWith = dialWith
