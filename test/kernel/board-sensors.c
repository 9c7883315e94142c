// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The sensors of a board's controller, for stories: a hwmon device below the PCI function of a card. It has one temperature,
 * in thousandths of a degree, and its limit. The controller can fail in all ways in which the driver intel-m10-bmc-hwmon
 * does: see the parameters.
 */
#include <linux/delay.h>
#include <linux/hwmon.h>
#include <linux/module.h>
#include <linux/pci.h>

static char *card = "0000:01:00.0";
module_param(card, charp, 0444);
MODULE_PARM_DESC(card, "PCI address");

static int answer = 40000;
module_param(answer, int, 0644);
MODULE_PARM_DESC(answer, "temperature, or an errno if it is negative");

static bool hang;
module_param(hang, bool, 0644);
MODULE_PARM_DESC(hang, "a reading does not return, and its process cannot be killed");

static struct device *hwmon;

static umode_t visible(const void *data, enum hwmon_sensor_types type, u32 attribute, int channel)
{
	return 0444;
}

static int reading(struct device *dev, enum hwmon_sensor_types type, u32 attribute, int channel, long *value)
{
	int now;

	if (attribute == hwmon_temp_max) {
		*value = 90000;
		return 0;
	}
	while (READ_ONCE(hang))
		msleep(10);
	now = READ_ONCE(answer);
	if (now < 0)
		return now;
	*value = now;
	return 0;
}

static const struct hwmon_ops ops = { .is_visible = visible, .read = reading };
static const u32 temperature[] = { HWMON_T_INPUT | HWMON_T_MAX, 0 };
static const struct hwmon_channel_info channel = { .type = hwmon_temp, .config = temperature };
/* The kernel 6.1 has no const before the second asterisk. */
static const struct hwmon_channel_info *channels[] = { &channel, NULL };
static const struct hwmon_chip_info chip = { .ops = &ops, .info = channels };

static int __init load(void)
{
	unsigned int domain, bus, slot, function;
	struct pci_dev *pci;

	if (sscanf(card, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return -EINVAL;
	pci = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
	if (!pci)
		return -ENODEV;
	hwmon = hwmon_device_register_with_info(&pci->dev, "d5005bmc_hwmon", NULL, &chip, NULL);
	pci_dev_put(pci);
	return PTR_ERR_OR_ZERO(hwmon);
}

static void __exit unload(void)
{
	hwmon_device_unregister(hwmon);
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sensors of a board for tests");
