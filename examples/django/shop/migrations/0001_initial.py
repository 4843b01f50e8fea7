"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """The first."""

    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True)),
                ("item", models.CharField(max_length=100)),
                ("card", models.CharField(max_length=20)),
                ("state", models.CharField(default="placed", max_length=20)),
                ("receipts", models.IntegerField(default=0)),
            ],
        ),
    ]
