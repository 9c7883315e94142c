package port

// TakeAFU judges what reading afu_id gave. No ordinary file answers EBUSY or
// ENODEV, so these are tested here.
var TakeAFU = takeAFU
